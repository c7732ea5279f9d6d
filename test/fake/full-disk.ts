/**
 * Run by agent/record/writer.rotating-file.test.ts in a mount namespace: a small disk runs full,
 * and is made larger.
 */

import { execFileSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { RotatingFile } from '../../agent/record/writer.ts';

const folder = process.argv[2] ?? '';
const path = join(folder, 'records.jsonl');
const BLOCK = `${'y'.repeat(999)}\n`;
const counts = { written: 0, lost: 0 };

execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=16k', 'tmpfs', folder]);
const file = new RotatingFile({
  path,
  maxBytes: 1e6,
  maxFiles: 2,
  failed(_error, lines) {
    counts.lost += lines;
  },
  written(lines) {
    counts.written += lines;
  },
});
const write = () => new Promise<void>((resolve) => file.write(BLOCK, () => resolve()));
for (let i = 0; i < 40; i++) await write();
const { written, lost } = counts;
const full = statSync(path).size;
execFileSync('mount', ['-o', 'remount,size=64k', folder]);
// It is tried again every 5 s.
await new Promise((resolve) => setTimeout(resolve, 5100));
await write();
await finished(file.end());
process.stdout.write(JSON.stringify({ full, written, lost, later: statSync(path).size }));
