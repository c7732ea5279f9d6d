import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { Freshness } from './freshness.ts';

describe('Freshness', () => {
  it('is proven when every watch has proven itself since the last begin', async () => {
    const open: PromiseWithResolvers<void>[] = [];
    const prove = (): Promise<void> => {
      const one = Promise.withResolvers<void>();
      open.push(one);
      return one.promise;
    };
    let proven = 0;
    const freshness = new Freshness(
      () => [{ prove }, { prove }],
      () => proven++,
    );
    freshness.begin();
    freshness.begin();
    assert.equal(open.length, 2);
    open[0]?.resolve();
    await turn();
    assert.equal(freshness.isProven, false);
    // Another term: the first proof no longer counts.
    freshness.end();
    freshness.begin();
    open[1]?.resolve();
    await turn();
    assert.deepEqual([freshness.isProven, proven], [false, 0]);
    for (const one of open) one.resolve();
    await turn();
    assert.deepEqual([freshness.isProven, proven], [true, 1]);
    freshness.end();
    assert.equal(freshness.isProven, false);
    freshness.begin();
    for (const one of open.slice(4)) one.reject(new Error('closed'));
    await turn();
    assert.equal(freshness.isProven, false);
  });
});
