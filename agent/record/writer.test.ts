import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LogRecord } from './record.ts';
import { recordWriter } from './writer.ts';

const RECORD: LogRecord = { time: '2026-11-21T15:00:00.000000Z', node: 'node-0', lost: 1 };
const config = { maxBytes: 1e7, maxFiles: 2 };

describe('recordWriter', () => {
  let folder: string;
  let said: string[];
  const log = {
    error: (message: string) => said.push(message),
    warn: (message: string) => said.push(message),
    info: (message: string) => said.push(message),
  };
  beforeEach(() => {
    said = [];
    folder = mkdtempSync(join(tmpdir(), 'nodewall-writer-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('has everything on disk when it is closed', async () => {
    const file = join(folder, 'records.jsonl');
    const writer = recordWriter({ config, file, log });
    for (let i = 0; i < 5000; i++) assert(writer.write({ ...RECORD, lost: i }));
    await writer.close();
    const lines = readFileSync(file, 'utf8').trim().split('\n');
    assert.deepEqual(
      lines.map((line) => JSON.parse(line).lost),
      Array.from({ length: 5000 }, (_, i) => i),
    );
    assert.deepEqual([writer.consumeLost(), said], [0, []]);
  });

  it('drops and counts records beyond its buffer, logs it once, and can be closed', async () => {
    const writer = recordWriter({ config, file: join(folder, 'records.jsonl'), log });
    const big = { ...RECORD, label: 'x'.repeat(100_000) } as LogRecord;
    // No write happens before the event loop continues.
    const taken = Array.from({ length: 200 }, () => writer.write(big)).filter(Boolean).length;
    assert(taken >= 80 && taken <= 100, String(taken));
    assert.equal(writer.consumeLost(), 200 - taken);
    assert.equal(writer.consumeLost(), 0);
    assert.equal(said.length, 1);
    assert.match(said[0] ?? '', /cannot write flow log records; enforcement continues/);
    await writer.close();
  });

  it('counts records that a full disk rejects, and gives advice', async () => {
    const writer = recordWriter({ config, file: '/dev/full', log });
    for (let i = 0; i < 10; i++) writer.write(RECORD);
    await writer.close();
    assert.equal(writer.consumeLost(), 10);
    assert.deepEqual(said, [
      'cannot write flow log records; enforcement continues. Make room on the disk of /dev/full, or set log.maxBytes and log.maxFiles lower',
    ]);
  });
});
