import assert from 'node:assert/strict';
import { VersionWait } from './freshness.ts';

describe('VersionWait', () => {
  const LONG = 60_000;
  const { signal: open } = new AbortController();

  it('ends when the version is reached, for whoever waits for it or for less', async () => {
    let reached = 3;
    const wait = new VersionWait(() => reached);
    assert.equal(await wait.reaches(3, LONG, open), true);
    const done: number[] = [];
    const waiting = [5, 6].map(async (version) => {
      assert.equal(await wait.reaches(version, LONG, open), true);
      done.push(version);
    });
    reached = 5;
    wait.advanced();
    await waiting[0];
    assert.deepEqual(done, [5]);
    reached = 7;
    wait.advanced();
    await waiting[1];
    assert.deepEqual(done, [5, 6]);
  });

  it('says that the version was not reached in time', async () => {
    assert.equal(await new VersionWait(() => 3).reaches(4, 1, open), false);
  });

  it('rejects when the watch is closed', async () => {
    const closing = new AbortController();
    const waiting = new VersionWait(() => 3).reaches(4, LONG, closing.signal);
    closing.abort();
    await assert.rejects(waiting, { name: 'AbortError' });
  });
});
