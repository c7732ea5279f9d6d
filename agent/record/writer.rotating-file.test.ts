import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { RotatingFile, type RotatingFileOptions } from './writer.ts';

describe('RotatingFile', () => {
  let folder: string;
  let path: string;
  let written = 0;
  let failures: [code: string | undefined, lines: number][] = [];
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'nodewall-rotate-'));
    path = join(folder, 'records.jsonl');
    written = 0;
    failures = [];
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  function create(options: Partial<RotatingFileOptions> = {}): RotatingFile {
    return new RotatingFile({
      path,
      maxBytes: 100,
      maxFiles: 3,
      failed: (error: NodeJS.ErrnoException, lines) => void failures.push([error.code, lines]),
      written: (lines) => {
        written += lines;
      },
      ...options,
    });
  }
  const line = (number: number) => `${String(number).padStart(9, '0')}\n`;
  const write = (file: RotatingFile, text: string) =>
    new Promise<void>((resolve) => file.write(text, () => resolve()));
  const numbers = (name: string) => readFileSync(join(folder, name), 'utf8').trim().split('\n').map(Number);

  it('keeps the newest lines, in a limited number of files of limited size, readable by root only', async () => {
    const file = create();
    // Some lines one by one, most of them at once.
    for (let i = 0; i < 25; i++) await write(file, line(i));
    for (let i = 25; i < 95; i++) file.write(line(i));
    await finished(file.end());
    assert.deepEqual(readdirSync(folder).sort(), ['records.jsonl', 'records.jsonl.1', 'records.jsonl.2']);
    const all = ['records.jsonl.2', 'records.jsonl.1', 'records.jsonl'].flatMap(numbers);
    assert.deepEqual(
      all,
      Array.from({ length: 25 }, (_, i) => 70 + i),
    );
    for (const name of readdirSync(folder)) {
      assert(statSync(join(folder, name)).size <= 100, name);
      assert.equal(statSync(join(folder, name)).mode & 0o777, 0o600);
    }
    assert.deepEqual([written, failures], [95, []]);
  });

  it('appends to an existing file, and ends the incomplete line of a crash', async () => {
    writeFileSync(path, '{"half');
    const file = create();
    file.write(line(1));
    await finished(file.end());
    assert.equal(readFileSync(path, 'utf8'), `{"half\n${line(1)}`);
  });

  it('keeps a single file if configured', async () => {
    const file = create({ maxFiles: 1 });
    for (let i = 0; i < 25; i++) file.write(line(i));
    await finished(file.end());
    assert.deepEqual(readdirSync(folder), ['records.jsonl']);
    assert.deepEqual(numbers('records.jsonl'), [20, 21, 22, 23, 24]);
  });

  it('writes a line longer than the file limit into a file of its own', async () => {
    const file = create();
    const long = `${'x'.repeat(150)}\n`;
    for (const text of [line(1), long, line(2)]) file.write(text);
    await finished(file.end());
    assert.deepEqual(
      ['records.jsonl.2', 'records.jsonl.1', 'records.jsonl'].map((name) =>
        readFileSync(join(folder, name), 'utf8'),
      ),
      [line(1), long, line(2)],
    );
  });

  it('starts a new file if a third party moved the old one', async function () {
    this.timeout(60_000);
    const file = create();
    await write(file, line(1));
    renameSync(path, `${path}.away`);
    await new Promise((resolve) => setTimeout(resolve, 1100));
    await write(file, line(2));
    await finished(file.end());
    assert.deepEqual([numbers('records.jsonl.away'), numbers('records.jsonl')], [[1], [2]]);
  });

  it('reports lines that a full device rejects, without failing the stream', async () => {
    const file = create({ path: '/dev/full' });
    for (let i = 0; i < 3; i++) await write(file, line(i));
    await finished(file.end());
    assert.deepEqual(failures, [
      ['ENOSPC', 1],
      ['ENOSPC', 1],
      ['ENOSPC', 1],
    ]);
  });

  it('reports a path that cannot be a file', async () => {
    mkdirSync(path);
    const file = create();
    await write(file, line(1));
    await finished(file.end());
    assert.deepEqual(failures, [['EISDIR', 1]]);
  });

  it('leaves no incomplete line on a full disk, and continues when there is space', function () {
    this.timeout(60_000);
    if (process.getuid?.() !== 0) this.skip();
    const child = [process.execPath, join(import.meta.dirname, '../../test/fake/full-disk.ts'), folder];
    // In a mount namespace of its own, so that the file system goes away however the process ends.
    const { full, written, lost, later } = JSON.parse(
      execFileSync('unshare', ['--mount', ...child], { encoding: 'utf8' }),
    );
    assert.equal(written + lost, 40);
    assert(written > 10, `${written} written`);
    assert.equal(full, 1000 * written, 'whole lines, all of them');
    assert.equal(later, full + 1000);
  });

  it('does not wait for a reader of a named pipe', async () => {
    execFileSync('mkfifo', [path]);
    const file = create();
    await write(file, line(1));
    await finished(file.end());
    assert.deepEqual(failures, [['ENXIO', 1]]);
  });

  it('keeps lines that others append', async () => {
    const file = create({ maxBytes: 1000 });
    await write(file, line(1));
    appendFileSync(path, line(2));
    await write(file, line(3));
    await finished(file.end());
    assert.deepEqual(numbers('records.jsonl'), [1, 2, 3]);
  });
});
