import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readOff, removeOff, writeOff } from './off-file.ts';

describe('the file off', () => {
  let folder: string;
  let path: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'nodewall-off-'));
    path = join(folder, 'off');
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it('is read as written, readable by its owner only, and can be removed', async () => {
    const off = { reason: 'why', since: '2026-01-02T03:04:05.678Z', by: 'root' };
    assert.equal(readOff(folder), null);
    await writeOff(folder, off);
    assert.deepEqual(readOff(folder), off);
    assert.equal(statSync(path).mode & 0o777, 0o600);
    assert.deepEqual(readdirSync(folder), ['off']);
    assert.equal(removeOff(folder), true);
    assert.equal(readOff(folder), null);
    assert.equal(removeOff(folder), false);
    assert.equal(readOff(join(folder, 'absent')), null);
    await writeOff(join(folder, 'made'), off);
    assert.deepEqual(readOff(join(folder, 'made')), off);
  });

  it('counts with any content', () => {
    const unsaid = { reason: '', since: '', by: '' };
    for (const content of ['', '{', 'null', '[]', '7', '{"reason":7}', 'x'.repeat(100_000)]) {
      writeFileSync(path, content);
      assert.deepEqual(readOff(folder), unsaid, content.slice(0, 20));
      removeOff(folder);
    }
    mkdirSync(path);
    assert.deepEqual(readOff(folder), unsaid);
    removeOff(folder);
    symlinkSync('/nowhere', path);
    assert.deepEqual(readOff(folder), unsaid);
    removeOff(folder);
    assert.equal(readOff(folder), null);
  });
});
