import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { join } from 'node:path';

/**
 * `npm run test:long`: campaigns that take too long for `npm test`, each file by itself, and at the
 * end ten times as many cases of each property. Arguments are passed on to mocha.
 */
const files = globSync('test/**/*.long.ts', { exclude: ['**/node_modules/**'] }).sort();
const mocha = join(import.meta.dirname, '..', 'node_modules', '.bin', 'mocha');
for (const file of files) run([file], process.env);
run(globSync('test/properties/**/*.test.ts').sort(), { NODEWALL_RUNS: '10', ...process.env });

function run(paths: readonly string[], env: NodeJS.ProcessEnv): void {
  process.stdout.write(`\n# ${paths.join(' ')}\n`);
  const { status } = spawnSync(mocha, [...process.argv.slice(2), ...paths], { stdio: 'inherit', env });
  if (status !== 0) process.exitCode = 1;
}
