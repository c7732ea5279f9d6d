// Runs src/core (the addon without Node.js) under valgrind in a network namespace of its own; fails on memory that our code
// lost or misused. Losses inside libnftables itself are shown, but only fail the check if our code made the allocation.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const here = import.meta.dirname;
const build = path.join(here, 'build/leak');

function run(command: string, args: string[]): number {
  const { status, error } = spawnSync(command, args, { stdio: ['ignore', 'inherit', 'inherit'] });
  if (error) throw error;
  return status ?? 1;
}

/** The losses valgrind's report calls definite, each as the text of its stack. */
function losses(report: string): string[] {
  const lines = report.split('\n').map((line) => line.replace(/^==\d+== ?/, ''));
  const blocks = lines.join('\n').split(/\n\s*\n/);
  return blocks.filter((block) => block.includes('definitely lost in loss record'));
}

const folder = mkdtempSync(path.join(tmpdir(), 'nftables-napi-leak-'));
try {
  const configure = ['-S', here, '-B', build, '-DCMAKE_BUILD_TYPE=Debug'];
  const log = path.join(folder, 'valgrind.log');
  const suppressions = `--suppressions=${path.join(here, 'leak/valgrind.supp')}`;
  const valgrind = [
    '--leak-check=full',
    '--error-exitcode=9',
    '--errors-for-leak-kinds=none',
    suppressions,
    `--log-file=${log}`,
  ];
  process.exitCode =
    run('cmake', [...configure, '--log-level=WARNING', '-Wno-dev']) ||
    run('cmake', ['--build', build, '--target', 'leak_check', '--', '--quiet']) ||
    run('unshare', ['-n', 'valgrind', ...valgrind, path.join(build, 'leak_check')]);
  const report = readFileSync(log, 'utf8');
  const found = losses(report);
  // The frame that called malloc or new decides whose loss it is: ours are functions in namespace nft.
  const ours = found.filter((block) =>
    /(?:by|at) 0x\w+: nft::/.test(block.split('\n').slice(1, 4).join('\n')),
  );
  if (process.exitCode !== 0 || ours.length > 0) {
    process.exitCode ||= 1;
    process.stderr.write(`${report}\n`);
  }
  process.stdout.write(
    `leak check: ${ours.length} losses of ours, ${found.length - ours.length} inside libraries\n`,
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
