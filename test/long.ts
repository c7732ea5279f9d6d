import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { join } from 'node:path';

/**
 * `npm run test:long`: campaigns that take too long for `npm test`. Arguments are passed on to
 * mocha.
 */
const files = globSync('test/**/*.long.ts', { exclude: ['**/node_modules/**'] }).sort();
const mocha = join(import.meta.dirname, '..', 'node_modules', '.bin', 'mocha');
const { status } = spawnSync(mocha, [...process.argv.slice(2), ...files], { stdio: 'inherit' });
process.exitCode = status ?? 1;
