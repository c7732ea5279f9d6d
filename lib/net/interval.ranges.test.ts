import assert from 'node:assert/strict';
import fc from 'fast-check';
import { appendRange, complement, type Range, unionRanges } from './interval.ts';

const LAST = 41;
const NUMBER = fc.integer({ min: 0, max: LAST });
const LIST = fc.array(
  fc.tuple(NUMBER, NUMBER).map(([a, b]): Range => [Math.min(a, b), Math.max(a, b)]),
  { maxLength: 6 },
);
const NUMBERS = Array.from({ length: LAST + 1 }, (_, number) => number);
const has = (ranges: readonly Range[], number: number) =>
  ranges.some(([first, last]) => first <= number && number <= last);
const listed = (ranges: readonly Range[]) => NUMBERS.filter((number) => has(ranges, number));

function assertApart(ranges: readonly Range[]): void {
  for (const [i, [first, last]] of ranges.entries()) {
    assert.ok(first <= last && first > (ranges[i - 1]?.[1] ?? -2) + 1);
  }
}

describe('ranges of numbers', () => {
  it('union has the same numbers, sorted and disjoint', () => {
    fc.assert(
      fc.property(LIST, (list) => {
        const merged = unionRanges(list);
        assert.deepEqual(listed(merged), listed(list));
        assertApart(merged);
      }),
    );
  });

  it('complement has all other numbers, sorted and disjoint', () => {
    fc.assert(
      fc.property(LIST, (list) => {
        const others = complement(unionRanges(list), LAST);
        assert.deepEqual(
          listed(others),
          NUMBERS.filter((number) => !has(list, number)),
        );
        assertApart(others);
      }),
    );
  });

  it('appended to each other stay disjoint', () => {
    fc.assert(
      fc.property(LIST, (list) => {
        const ranges: Range[] = [];
        for (const number of listed(list)) appendRange(ranges, [number, number]);
        assert.deepEqual(ranges, unionRanges(list));
      }),
    );
  });
});
