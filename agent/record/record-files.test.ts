import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { recordLines } from './record-files.ts';

const LONG = 'h'.repeat(100);

describe('recordLines', () => {
  let folder: string;
  let path: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'nodewall-lines-'));
    path = join(folder, 'records.jsonl');
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  async function all(): Promise<(string | null)[]> {
    return await Array.fromAsync(recordLines(path, { follow: false }));
  }

  it('reads rotated files oldest first', async () => {
    writeFileSync(`${path}.2`, 'a\nb\n');
    writeFileSync(`${path}.1`, 'c\n');
    writeFileSync(path, 'd\n\ne');
    // The last line is incomplete: it is being written.
    assert.deepEqual(await all(), ['a', 'b', 'c', 'd', null]);
  });

  it('returns nothing for a missing file', async () => assert.deepEqual(await all(), [null]));

  it('reads lines longer than a read, and characters across reads', async () => {
    const lines = Array.from({ length: 40 }, (_, i) => `${'ä'.repeat(20_011)}${i}`);
    writeFileSync(path, `${lines.join('\n')}\n`);
    assert.deepEqual(await all(), [...lines, null]);
  });

  it('follows over rotations, one and two at once, and a truncation', async () => {
    const stop = new AbortController();
    const seen: (string | null)[] = [];
    const until = async (count: number) => {
      for (let i = 0; seen.length < count && i < 200; i++)
        await new Promise((resolve) => setTimeout(resolve, 20));
      assert.equal(seen.length, count, JSON.stringify(seen));
    };
    const rotate = () => {
      for (const i of [2, 1]) {
        try {
          renameSync(i === 1 ? path : `${path}.${i - 1}`, `${path}.${i}`);
        } catch (error) {
          assert.equal((error as NodeJS.ErrnoException).code, 'ENOENT');
        }
      }
    };
    writeFileSync(path, 'a\n');
    const done = (async () => {
      for await (const line of recordLines(path, { follow: true, signal: stop.signal })) seen.push(line);
    })();
    await until(2);
    appendFileSync(path, 'b\nc');
    await until(3);
    appendFileSync(path, 'c\nd\n');
    rotate();
    writeFileSync(path, 'e\n');
    await until(6 + 1);
    appendFileSync(path, 'f\n');
    rotate();
    writeFileSync(path, 'g\n');
    rotate();
    // Longer than what follows the truncation: an equal size would not be noticed.
    writeFileSync(path, `${LONG}\n`);
    await until(10 + 1);
    truncateSync(path);
    appendFileSync(path, 'i');
    await new Promise((resolve) => setTimeout(resolve, 300));
    appendFileSync(path, '\n');
    await until(11 + 1);
    stop.abort();
    await done;
    assert.deepEqual(
      seen.filter((line) => line !== null),
      ['a', 'b', 'cc', 'd', 'e', 'f', 'g', LONG, 'i'],
    );
  });
});
