import { dirname, join } from 'node:path';

const { NODEWALL_BIN, NODEWALL_BUNDLE } = process.env;

/** Whether another program than this checkout's is tested: an installed one, or an older one. */
export const IS_OTHER = NODEWALL_BIN !== undefined;
/**
 * The command line that tests start: with NODEWALL_BIN that; in `npm test` the bundle that is
 * installed (build/package/bundle.ts); else this checkout's sources.
 */
export const NODEWALL = NODEWALL_BIN ?? NODEWALL_BUNDLE ?? join(import.meta.dirname, '../bin/nodewall');
/** The process of cli/command-host.ts, from the root and without extension. */
export const COMMAND_HOST = 'test/cli/command-host-child';
/**
 * The same as a path: in `npm test` a file of the bundle, as a process of sources takes twice the
 * processor time to start.
 */
export const COMMAND_HOST_PROGRAM =
  NODEWALL_BUNDLE === undefined
    ? join(import.meta.dirname, `../${COMMAND_HOST}.ts`)
    : join(dirname(NODEWALL_BUNDLE), `../${COMMAND_HOST}.cjs`);
