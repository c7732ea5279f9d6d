import fc from 'fast-check';

/**
 * Loaded before all tests: NODEWALL_SEED is for every property, not only for those of
 * test/properties.
 */
const { NODEWALL_SEED: seed } = process.env;
if (seed !== undefined && Number.isInteger(Number(seed))) fc.configureGlobal({ seed: Number(seed) });
