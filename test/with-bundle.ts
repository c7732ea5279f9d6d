/**
 * `node test/with-bundle.ts PROGRAM ARGUMENTS...`: runs a program of this checkout, which starts
 * nodewall as it is installed, and tests' host of commands with the same code: NODEWALL_BUNDLE, see
 * program.ts.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod } from 'node:fs/promises';
import { join } from 'node:path';
import { installedProgram } from '../build/package/bundle.ts';
import { scratchFolder } from '../build/programs/folder.ts';
import { COMMAND_HOST } from './program.ts';

const scratch = await scratchFolder('nodewall-program-');
// Some tests run the program as another user.
await chmod(scratch.path, 0o755);
const NODEWALL_BUNDLE = await installedProgram(join(scratch.path, 'nodewall'), [COMMAND_HOST]);
const child = spawn(process.execPath, process.argv.slice(2), {
  stdio: 'inherit',
  env: { ...process.env, NODEWALL_BUNDLE },
});
// ^C reaches both; this one waits for the other's end.
process.on('SIGINT', () => undefined).on('SIGTERM', () => child.kill());
const [status] = await once(child, 'exit');
await scratch.remove();
process.exitCode = status ?? 1;
