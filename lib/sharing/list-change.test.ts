import assert from 'node:assert/strict';
import fc from 'fast-check';
import { listChange } from './list-change.ts';

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
