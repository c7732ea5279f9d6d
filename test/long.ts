import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { join } from 'node:path';

/**
 * `npm run test:long`: campaigns that take too long for `npm test`, each file by itself. Arguments
 * are passed on to mocha.
 */
const files = globSync('test/**/*.long.ts', { exclude: ['**/node_modules/**'] }).sort();
const mocha = join(import.meta.dirname, '..', 'node_modules', '.bin', 'mocha');
for (const file of files) {
  process.stdout.write(`\n# ${file}\n`);
  const { status } = spawnSync(mocha, [...process.argv.slice(2), file], { stdio: 'inherit' });
  if (status !== 0) process.exitCode = 1;
}
