import assert from 'node:assert/strict';
import fc from 'fast-check';
import { AddressUnion, type OwnedRange, ownedRange, RangeIndex } from './range-index.ts';

const RANGE: fc.Arbitrary<OwnedRange> = fc.record({
  family: fc.constantFrom(4 as const, 6 as const),
  range: fc.tuple(fc.nat(40), fc.nat(5)).map(([first, more]) => {
    return { first: BigInt(first), last: BigInt(first + more) };
  }),
  owner: fc.string({ maxLength: 2 }),
});

describe('ranges of addresses', () => {
  it('that overlap others are found', () => {
    fc.assert(
      fc.property(fc.array(RANGE, { maxLength: 12 }), RANGE, (ranges, { family, range }) => {
        const overlap = (one: OwnedRange): boolean =>
          one.family === family && one.range.first <= range.last && range.first <= one.range.last;
        const found = new RangeIndex(ranges).overlapping(family, range);
        assert.equal(found !== undefined, ranges.some(overlap));
        if (found !== undefined) assert.ok(overlap(found));
      }),
      { numRuns: 1000 },
    );
  });

  it('are part of a union if each of their addresses is', () => {
    fc.assert(
      fc.property(fc.array(RANGE, { maxLength: 12 }), RANGE, (ranges, { family, range }) => {
        const has = (value: bigint): boolean =>
          ranges.some((one) => one.family === family && one.range.first <= value && value <= one.range.last);
        let all = true;
        for (let value = range.first; value <= range.last; value++) all &&= has(value);
        assert.equal(new AddressUnion(ranges).covers(family, range), all);
      }),
      { numRuns: 1000 },
    );
  });

  it('are read from addresses and CIDRs', () => {
    const text = (one: OwnedRange): string => `${one.family} ${one.range.first} ${one.range.last}`;
    assert.deepEqual(ownedRange('10.0.0.0/30', '').map(text), ['4 167772160 167772163']);
    assert.deepEqual(ownedRange('::5', '').map(text), ['6 5 5']);
    assert.deepEqual(ownedRange('x', ''), []);
  });
});
