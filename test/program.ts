import { join } from 'node:path';

const { NODEWALL_BIN, NODEWALL_BUNDLE } = process.env;

/** Whether another program than this checkout's is tested: an installed one, or an older one. */
export const IS_OTHER = NODEWALL_BIN !== undefined;
/**
 * The command line that tests start: with NODEWALL_BIN that; in `npm test` the bundle that is
 * installed (build/package/bundle.ts); else this checkout's sources.
 */
export const NODEWALL = NODEWALL_BIN ?? NODEWALL_BUNDLE ?? join(import.meta.dirname, '../bin/nodewall');
