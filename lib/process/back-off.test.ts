import assert from 'node:assert/strict';
import { BackOff, waitAfter } from './back-off.ts';

describe('back-off', () => {
  const TIMES = { first: 500, longest: 3_000 };
  const waits = (backOff: BackOff, count: number): number[] =>
    Array.from({ length: count }, () => backOff.next());

  it('doubles up to the longest wait', () => {
    assert.deepEqual(waits(new BackOff(TIMES), 5), [500, 1_000, 2_000, 3_000, 3_000]);
  });

  it('restarts after a success', () => {
    const backOff = new BackOff(TIMES);
    waits(backOff, 3);
    backOff.reset();
    backOff.reset();
    assert.deepEqual(waits(backOff, 2), [500, 1_000]);
  });

  it('randomises half of each wait if allowed', () => {
    for (const [random, share] of [
      [0, 0.5],
      [0.5, 0.75],
      [1, 1],
    ] as const) {
      const backOff = new BackOff({ ...TIMES, random: () => random });
      assert.deepEqual(
        waits(backOff, 4),
        [500, 1_000, 2_000, 3_000].map((wait) => wait * share),
      );
    }
  });

  it('never waits longer than the longest, first wait or not', () => {
    assert.equal(new BackOff({ first: 5_000, longest: 1_000 }).next(), 1_000);
    assert.equal(waitAfter(100_000, TIMES), 3_000);
    assert.equal(waitAfter(100_000, { first: 1, longest: Number.MAX_SAFE_INTEGER }), Number.MAX_SAFE_INTEGER);
  });

  it('computes a wait from the number of failures, without state', () => {
    assert.deepEqual(
      [1, 2, 3, 4].map((failures) => waitAfter(failures, TIMES)),
      [500, 1_000, 2_000, 3_000],
    );
  });
});
