import assert from 'node:assert/strict';
import fc from 'fast-check';
import { type Interval, subtract, toCidrs, toInterval, union } from './interval.ts';

/** Small numbers, so that every address can be checked. */
const SPACE = 64n;
const NUMBER = fc.bigInt({ min: 0n, max: SPACE - 1n });
const INTERVAL = fc
  .tuple(NUMBER, NUMBER)
  .map(([a, b]): Interval => (a < b ? { first: a, last: b } : { first: b, last: a }));
const LIST = fc.array(INTERVAL, { maxLength: 8 });

function numbers(intervals: readonly Interval[]): bigint[] {
  const found: bigint[] = [];
  for (let n = 0n; n < SPACE; n++)
    if (intervals.some(({ first, last }) => first <= n && n <= last)) found.push(n);
  return found;
}

/** Asserts that intervals are sorted, disjoint and not adjacent. */
function assertApart(intervals: readonly Interval[]): void {
  for (const [i, { first, last }] of intervals.entries()) {
    assert.ok(first <= last);
    const next = intervals[i + 1];
    assert.ok(next === undefined || last + 1n < next.first);
  }
}

describe('interval', () => {
  it('union holds the same numbers, in the fewest intervals', () => {
    fc.assert(
      fc.property(LIST, (list) => {
        const merged = union(list);
        assertApart(merged);
        assert.deepEqual(numbers(merged), numbers(list));
      }),
    );
  });

  it('subtract holds the numbers that no hole covers', () => {
    fc.assert(
      fc.property(LIST, LIST, (list, holes) => {
        const rest = subtract(union(list), union(holes));
        assertApart(rest);
        const covered = new Set(numbers(holes));
        assert.deepEqual(
          numbers(rest),
          numbers(list).filter((n) => !covered.has(n)),
        );
      }),
      { numRuns: 500 },
    );
  });

  it('toCidrs covers exactly the interval with the fewest prefixes', () => {
    fc.assert(
      fc.property(INTERVAL, (interval) => {
        const cidrs = toCidrs(4, interval);
        assert.deepEqual(numbers(cidrs.map(toInterval)), numbers([interval]));
        // No two adjacent prefixes are halves of one prefix.
        for (const [i, { value, length }] of cidrs.entries()) {
          const next = cidrs[i + 1];
          const size = 1n << BigInt(32 - length);
          assert.ok(next === undefined || next.length !== length || (value & size) !== 0n);
        }
      }),
    );
  });

  it('toCidrs covers a whole family with one prefix', () => {
    assert.deepEqual(toCidrs(4, { first: 0n, last: 2n ** 32n - 1n }), [{ family: 4, value: 0n, length: 0 }]);
    assert.deepEqual(toCidrs(6, { first: 0n, last: 2n ** 128n - 1n }), [{ family: 6, value: 0n, length: 0 }]);
    assert.equal(toCidrs(4, { first: 1n, last: 2n ** 32n - 2n }).length, 62);
  });
});
