import type { EgressPolicy } from '../../apis/egress/objects.ts';
import { BITS, type Family, parseCidr } from '../../lib/net/address.ts';
import { type Interval, subtract, toInterval, union } from '../../lib/net/interval.ts';
import { firstAt } from '../../lib/sharing/lists.ts';

/** The intervals of one family among CIDRs, merged. */
export function cidrIntervals(cidrs: readonly string[], family: Family): Interval[] {
  return union(
    cidrs.flatMap((text) => {
      const cidr = parseCidr(text)?.cidr;
      return cidr?.family === family ? toInterval(cidr) : [];
    }),
  );
}

/** Those of both families. */
export function intervalsOf(cidrs: readonly string[]): Readonly<Record<Family, readonly Interval[]>> {
  return { 4: cidrIntervals(cidrs, 4), 6: cidrIntervals(cidrs, 6) };
}

/** A part of the address space in which the same lists hold. */
interface Segment {
  readonly range: Interval;
  /**
   * Indexes of the lists that contain the range, in ascending order; valid until the next segment.
   */
  readonly active: readonly number[];
}

/**
 * The parts into which the bounds of several lists divide the address space, in order, without
 * those that are in no list. Each list is sorted and disjoint. Cost: the bounds × their logarithm.
 */
export function* segments(lists: readonly (readonly Interval[])[]): Iterable<Segment> {
  const bounds: { readonly at: bigint; readonly list: number; readonly begins: boolean }[] = [];
  for (const [list, intervals] of lists.entries()) {
    for (const { first, last } of intervals) {
      bounds.push({ at: first, list, begins: true }, { at: last + 1n, list, begins: false });
    }
  }
  bounds.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
  const active: number[] = [];
  let first = 0n;
  for (const { at, list, begins } of bounds) {
    if (at > first && active.length > 0) yield { range: { first, last: at - 1n }, active };
    first = at;
    const place = firstAt(0, active.length, (i) => (active[i] ?? list) >= list);
    if (begins) active.splice(place, 0, list);
    else active.splice(place, 1);
  }
}

export type DestinationIntervals = Readonly<Record<Family, readonly Interval[]>>;

/** The destinations that a policy names; without `to`, all: the inside is tested before. */
export function destinationsOf({ spec: { to, except } }: EgressPolicy): DestinationIntervals {
  const of = (family: Family): Interval[] => {
    const all = [{ first: 0n, last: (1n << BigInt(BITS[family])) - 1n }];
    const named = to === undefined || to.length === 0 ? all : cidrIntervals(to, family);
    return subtract(named, cidrIntervals(except, family));
  };
  return { 4: of(4), 6: of(6) };
}
