import { compareBigInts, firstAt } from '../sharing/lists.ts';
import { BITS, FAMILIES, type Family, parseAddress, parseCidr } from './address.ts';
import { type Interval, subtract, toInterval, union } from './interval.ts';

/** A range of addresses, and what has it, for messages. */
export interface OwnedRange {
  readonly family: Family;
  readonly range: Interval;
  /** As in `the pod network 10.244.1.0/24 of Node cp-1`. */
  readonly owner: string;
}

/** An address or a CIDR as a range; empty: it is neither. */
export function ownedRange(text: string, owner: string): OwnedRange[] {
  const address = parseAddress(text);
  const cidr = address === null ? parseCidr(text)?.cidr : { ...address, length: BITS[address.family] };
  return cidr === undefined ? [] : [{ family: cidr.family, range: toInterval(cidr), owner }];
}

/** Finds a range that overlaps another one. */
export interface Overlaps {
  /** Undefined: none does. */
  overlapping(family: Family, range: Interval): OwnedRange | undefined;
}

/** Finds ranges that overlap others, in O(log n). */
export class RangeIndex implements Overlaps {
  readonly #sorted: Readonly<Record<Family, readonly OwnedRange[]>>;
  /** At each index: the one that reaches furthest of those up to there. */
  readonly #furthest: Readonly<Record<Family, readonly OwnedRange[]>>;

  constructor(ranges: readonly OwnedRange[]) {
    this.#sorted = { 4: sorted(ranges, 4), 6: sorted(ranges, 6) };
    this.#furthest = { 4: furthest(this.#sorted[4]), 6: furthest(this.#sorted[6]) };
  }

  /** One that overlaps the range; undefined: none does. */
  overlapping(family: Family, { first, last }: Interval): OwnedRange | undefined {
    const all = this.#sorted[family];
    const after = firstAt(0, all.length, (i) => (all[i]?.range.first ?? 0n) > first);
    const before = this.#furthest[family][after - 1];
    if (before !== undefined && before.range.last >= first) return before;
    const next = all[after];
    return next !== undefined && next.range.first <= last ? next : undefined;
  }
}

function sorted(ranges: readonly OwnedRange[], of: Family): OwnedRange[] {
  return ranges
    .filter(({ family }) => family === of)
    .sort((a, b) => compareBigInts(a.range.first, b.range.first));
}

function furthest(ranges: readonly OwnedRange[]): OwnedRange[] {
  let most: OwnedRange | undefined;
  return ranges.map((one) => {
    if (most === undefined || one.range.last > most.range.last) most = one;
    return most;
  });
}

/** Addresses of both families, to ask whether a network is part of them. */
export class AddressUnion {
  readonly #intervals: Readonly<Record<Family, readonly Interval[]>>;

  constructor(ranges: readonly Pick<OwnedRange, 'family' | 'range'>[]) {
    const of = (family: Family): Interval[] =>
      union(ranges.filter((one) => one.family === family).map(({ range }) => range));
    this.#intervals = { 4: of(4), 6: of(6) };
  }

  covers(family: Family, { first, last }: Interval): boolean {
    const all = this.#intervals[family];
    const after = firstAt(0, all.length, (i) => (all[i]?.first ?? 0n) > first);
    const before = all[after - 1];
    return before !== undefined && before.last >= last;
  }

  /** The parts of the intervals (a union) that it does not have. */
  rest(family: Family, intervals: readonly Interval[]): Interval[] {
    return subtract(intervals, this.#intervals[family]);
  }

  /** Itself with these. */
  with(more: readonly Pick<OwnedRange, 'family' | 'range'>[]): AddressUnion {
    const own = FAMILIES.flatMap((family) => this.#intervals[family].map((range) => ({ family, range })));
    return new AddressUnion([...own, ...more]);
  }

  has(family: Family): boolean {
    return this.#intervals[family].length > 0;
  }
}

/** Whether sorted, disjoint intervals contain the value. */
export function hasInterval(intervals: readonly Interval[], value: bigint): boolean {
  const at = firstAt(0, intervals.length, (i) => (intervals[i]?.last ?? value) >= value);
  return (intervals[at]?.first ?? value + 1n) <= value;
}
