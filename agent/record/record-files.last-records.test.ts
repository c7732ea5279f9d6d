import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { lastRecords } from './record-files.ts';

const record = (second: number, policy: string, padding = ''): string =>
  JSON.stringify({ time: new Date(second * 1000).toISOString(), node: 'n', policy, padding });

describe('the last records', () => {
  let folder: string;
  let path: string;
  const ALL = { filter: {}, most: 100, bytes: 1 << 20 };

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nodewall-records-'));
    path = join(folder, 'records.jsonl');
  });
  afterEach(() => rm(folder, { recursive: true }));

  const numbers = (lines: readonly string[]) => lines.map((line) => Date.parse(JSON.parse(line).time) / 1000);

  it('are none of a file that does not exist, or is empty', async () => {
    await writeFile(path, '');
    assert.deepEqual(await lastRecords(path, ALL), { lines: [], isCut: false });
  });

  it('go back through rotated files, and leave out half a line', async () => {
    await writeFile(`${path}.2`, `${record(1, 'a')}\n`);
    await writeFile(`${path}.1`, `${record(2, 'b')}\n${record(3, 'a')}\n`);
    await writeFile(path, `${record(4, 'a')}\nno record\n${record(5, 'ä')}\n{"time":`);
    const { lines, isCut } = await lastRecords(path, ALL);
    assert.deepEqual([numbers(lines), isCut], [[1, 2, 3, 4, 5], false]);
    const ofA = await lastRecords(path, { ...ALL, filter: { policy: 'a' }, most: 2 });
    assert.deepEqual([numbers(ofA.lines), ofA.isCut], [[3, 4], true]);
    const since = await lastRecords(path, { ...ALL, filter: { since: 3_000 } });
    assert.deepEqual([numbers(since.lines), since.isCut], [[3, 4, 5], false]);
  });

  it('are whole across the pieces that are read, and end with the bytes', async () => {
    const lines = Array.from({ length: 500 }, (_, i) => record(i, 'a', 'ö'.repeat(i * 3)));
    await writeFile(path, lines.map((line) => `${line}\n`).join(''));
    assert.deepEqual((await lastRecords(path, { ...ALL, most: 1_000 })).lines, lines);
    const some = await lastRecords(path, { ...ALL, most: 1_000, bytes: 100_000 });
    assert.equal(some.isCut, true);
    assert.deepEqual(some.lines, lines.slice(-some.lines.length));
    assert.ok(some.lines.length > 20 && some.lines.length < 100, `${some.lines.length} lines`);
  });
});
