// Runs src/core (the addon without Node.js, as build.ts has compiled it) under valgrind in a
// network namespace of its own. Exits with 1 and valgrind's report when memory was definitely lost
// or misused. leak/valgrind.supp has what libnftables itself does. An argument is the number of
// rounds (20).
import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import path from 'node:path';

const here = import.meta.dirname;
const build = path.join(here, 'build');

function run(command: string, args: string[]): boolean {
  const { status, error, stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  if (error) throw error;
  if (status !== 0) process.stderr.write(`${command} ended with ${status}\n${stdout}${stderr}`);
  return status === 0;
}

const program = path.join(build, 'leak_check');
const valgrind = [
  '--leak-check=full',
  '--show-leak-kinds=definite',
  '--errors-for-leak-kinds=definite',
  '--error-exitcode=9',
  ...globSync('leak/*.supp', { cwd: here }).map((file) => `--suppressions=${path.join(here, file)}`),
];
const clean =
  run('cmake', ['--build', build, '--target', 'leak_check']) &&
  run('unshare', ['-n', 'valgrind', ...valgrind, program, ...process.argv.slice(2)]);
process.stdout.write(clean ? 'leak check: passed\n' : 'leak check: failed\n');
process.exitCode = clean ? 0 : 1;
