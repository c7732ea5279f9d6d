import assert from 'node:assert/strict';
import fc from 'fast-check';
import { commonEnds } from '../../lib/sharing/list-change.ts';
import { check } from '../../test/properties/runs.ts';
import { mapAlike } from './alike.ts';

describe('mapAlike', () => {
  const lists = fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 12 });

  it('property: makes what map makes, and only of what is not at the beginning, the end or its place', function () {
    check(this, 500, fc.tuple(lists, lists), ([before, now]) => {
      const last = mapAlike(null, before, (n) => ({ of: n }));
      let made = 0;
      const { from, to } = mapAlike(last, now, (n) => {
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

  it('makes again what is stale, and nothing else', () => {
    const last = mapAlike(null, [1, 2, 3, 4], (n) => ({ of: n }));
    const made: number[] = [];
    const { to } = mapAlike(
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
