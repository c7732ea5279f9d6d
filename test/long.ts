import { spawnSync } from 'node:child_process';
import { existsSync, globSync } from 'node:fs';
import { join } from 'node:path';

/**
 * `npm run test:long`: campaigns that take too long for `npm test`, each file by itself, and at the
 * end ten times as many cases of each property. A first argument that names a folder here or in
 * build/ (`guests`) picks its campaigns alone; others are passed on to mocha.
 */
const PARENTS = ['test', 'build'];
const [first = '', ...rest] = process.argv.slice(2);
const folder =
  /^\w+$/.test(first) && PARENTS.some((parent) => existsSync(join(import.meta.dirname, '..', parent, first)))
    ? first
    : undefined;
const mochaArguments = folder === undefined ? process.argv.slice(2) : rest;
const patterns = PARENTS.map((parent) => `${parent}/${folder ?? '**'}/**/*.long.ts`);
const files = globSync(patterns, { exclude: ['**/node_modules/**'] }).sort();
const mocha = join(import.meta.dirname, '..', 'node_modules', '.bin', 'mocha');
for (const file of files) run([file], process.env);
if (folder === undefined)
  run(globSync('test/properties/**/*.test.ts').sort(), { NODEWALL_RUNS: '10', ...process.env });

function run(paths: readonly string[], env: NodeJS.ProcessEnv): void {
  process.stdout.write(`\n# ${paths.join(' ')}\n`);
  const { status } = spawnSync(mocha, [...mochaArguments, ...paths], { stdio: 'inherit', env });
  if (status !== 0) process.exitCode = 1;
}
