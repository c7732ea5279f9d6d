import assert from 'node:assert/strict';
import fc from 'fast-check';
import { commonEnds } from '../../lib/sharing/lists.ts';
import { check } from '../../test/properties/runs.ts';
import { mapIncrementally } from './incremental-list.ts';

describe('mapIncrementally', () => {
  const lists = fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 12 });

  it('property: equals map, and computes only elements that moved or changed', function () {
    check(this, 500, fc.tuple(lists, lists), ([before, now]) => {
      const last = mapIncrementally(null, before, (n) => ({ of: n }));
      let made = 0;
      const { from, to } = mapIncrementally(last, now, (n) => {
        made++;
        return { of: n };
      });
      assert.equal(from, now);
      assert.deepEqual(
        to,
        now.map((n) => ({ of: n })),
      );
      const common = commonEnds(before, now);
      const end = now.length - common.last;
      const isBeside = (i: number): boolean => before.length === now.length && before[i] === now[i];
      assert.equal(made, now.filter((_, i) => i >= common.first && i < end && !isBeside(i)).length);
      for (let i = 0; i < common.first; i++) assert.equal(to[i], last.to[i]);
    });
  });

  it('computes stale elements again, and no others', () => {
    const last = mapIncrementally(null, [1, 2, 3, 4], (n) => ({ of: n }));
    const made: number[] = [];
    const { to } = mapIncrementally(
      last,
      [1, 2, 9, 3, 4],
      (n) => {
        made.push(n);
        return { of: n };
      },
      ({ of }) => of === 1 || of === 4,
    );
    assert.deepEqual(made, [1, 9, 4]);
    assert.equal(to[1], last.to[1]);
    assert.equal(to[3], last.to[2]);
  });
});
