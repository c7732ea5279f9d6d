import assert from 'node:assert/strict';
import fc from 'fast-check';
import { commonEnds, listChange } from './lists.ts';

describe('listChange', () => {
  it('returns the items that only one of two lists holds', () => {
    const all = Array.from({ length: 12 }, (_, i) => ({ i }));
    const list = fc.shuffledSubarray(all);
    fc.assert(
      fc.property(list, list, (before, now) => {
        const { removed, added } = listChange(before, now);
        assert.deepEqual(
          removed,
          before.filter((item) => !now.includes(item)),
        );
        assert.deepEqual(
          added,
          now.filter((item) => !before.includes(item)),
        );
      }),
      { numRuns: 500 },
    );
  });
});

describe('commonEnds', () => {
  it('counts equal elements at the start, and after those at the end', () => {
    assert.deepEqual(commonEnds([1, 2, 3, 4], [1, 2, 9, 4]), { first: 2, last: 1 });
    assert.deepEqual(commonEnds([1, 2], [1, 5, 2]), { first: 1, last: 1 });
    assert.deepEqual(commonEnds([1, 2], [1, 2]), { first: 2, last: 0 });
    assert.deepEqual(commonEnds([], [1]), { first: 0, last: 0 });
  });

  it('counts no element twice', () => {
    assert.deepEqual(commonEnds([1, 1, 1], [1, 1]), { first: 2, last: 0 });
    assert.deepEqual(commonEnds([1, 1], [1, 1, 1]), { first: 2, last: 0 });
  });
});
