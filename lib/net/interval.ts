import { BITS, type Cidr, type Family, formatAddress, lastAddress } from './address.ts';

/**
 * An inclusive range of addresses. Lists of intervals are sorted, disjoint, not adjacent, and of
 * one family.
 */
export interface Interval {
  readonly first: bigint;
  readonly last: bigint;
}

export function toInterval(cidr: Cidr): Interval {
  return { first: cidr.value, last: lastAddress(cidr) };
}

/** As in 10.0.0.0-10.0.0.255. */
export function addressRangeText(family: Family, { first, last }: Interval): string {
  return `${formatAddress({ family, value: first })}-${formatAddress({ family, value: last })}`;
}

/** Union of intervals in any order, in O(n log n). */
export function union(intervals: readonly Interval[]): Interval[] {
  const sorted = [...intervals].sort((a, b) => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0));
  const merged: Interval[] = [];
  for (const next of sorted) {
    const previous = merged.at(-1);
    if (previous === undefined || next.first > previous.last + 1n) merged.push(next);
    else if (next.last > previous.last)
      merged[merged.length - 1] = { first: previous.first, last: next.last };
  }
  return merged;
}

/** The parts of `from` (a union) that no interval of `holes` (a union) covers. */
export function subtract(from: readonly Interval[], holes: readonly Interval[]): Interval[] {
  const rest: Interval[] = [];
  let start = 0;
  for (const interval of from) {
    let { first } = interval;
    while ((holes[start]?.last ?? interval.first) < interval.first) start++;
    for (let at = start; ; at++) {
      const hole = holes[at];
      if (hole === undefined || hole.first > interval.last) break;
      if (hole.first > first) rest.push({ first, last: hole.first - 1n });
      if (hole.last + 1n > first) first = hole.last + 1n;
    }
    if (first <= interval.last) rest.push({ first, last: interval.last });
  }
  return rest;
}

/**
 * The fewest prefixes that cover exactly the interval, in order; at most 2 × the address length in
 * bits.
 */
export function toCidrs(family: Family, { first, last }: Interval): Cidr[] {
  const bits = BITS[family];
  const cidrs: Cidr[] = [];
  let value = first;
  while (value <= last) {
    let free = 0;
    while (free < bits) {
      const block = (1n << BigInt(free + 1)) - 1n;
      if ((value & block) !== 0n || (value | block) > last) break;
      free++;
    }
    cidrs.push({ family, value, length: bits - free });
    value += 1n << BigInt(free);
  }
  return cidrs;
}
