/**
 * Priority of the baseline tier, the only one that is evaluated after a Pass; no other tier can
 * have it.
 */
export const BASELINE_PRIORITY = 253;
