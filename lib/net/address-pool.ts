import { type Cidr, FAMILIES, type Family, formatAddress, parseAddress } from './address.ts';
import { type Interval, parsePoolRange, toCidrs, union } from './interval.ts';
import { hasInterval } from './range-index.ts';

/** The addresses of several ranges in their order, by family. */
export interface Pool {
  readonly ranges: Readonly<Record<Family, readonly Interval[]>>;
  /** The same, merged, for look-ups. */
  readonly merged: Readonly<Record<Family, readonly Interval[]>>;
}

/** @param ranges `IP`, `IP-IP` or CIDR, validated */
export function toPool(ranges: readonly string[]): Pool {
  const found: Record<Family, Interval[]> = { 4: [], 6: [] };
  for (const text of ranges) {
    const range = parsePoolRange(text);
    if (range !== null) found[range.family].push(range.addresses);
  }
  return { ranges: found, merged: { 4: union(found[4]), 6: union(found[6]) } };
}

export function hasFamily({ merged }: Pool, family: Family): boolean {
  return merged[family].length > 0;
}

export function isInPool({ merged }: Pool, text: string): boolean {
  return isAddressIn(merged, text);
}

/** Whether the text is an address in one of the intervals. */
export function isAddressIn(intervals: Readonly<Record<Family, readonly Interval[]>>, text: string): boolean {
  const address = parseAddress(text);
  return address !== null && hasInterval(intervals[address.family], address.value);
}

/**
 * The addresses of a family, in the order of the ranges; a pool may have more than can be listed.
 */
export function* poolAddresses({ ranges }: Pool, family: Family): Generator<string> {
  for (const { first, last } of ranges[family]) {
    for (let value = first; value <= last; value++) yield formatAddress({ family, value });
  }
}

/** The place of an address among those of its family; -1 if the pool does not have it. */
export function placeInPool({ ranges }: Pool, text: string): bigint {
  const address = parseAddress(text);
  let before = 0n;
  for (const { first, last } of address === null ? [] : ranges[address.family]) {
    if (address !== null && address.value >= first && address.value <= last)
      return before + address.value - first;
    before += last - first + 1n;
  }
  return -1n;
}

/** The address at a place; null beyond the last. */
export function poolAddress({ ranges }: Pool, family: Family, place: bigint): string | null {
  let rest = place;
  for (const { first, last } of ranges[family]) {
    if (rest <= last - first) return formatAddress({ family, value: first + rest });
    rest -= last - first + 1n;
  }
  return null;
}

export function poolCidrs({ merged }: Pool): Cidr[] {
  return FAMILIES.flatMap((family) => merged[family].flatMap((interval) => toCidrs(family, interval)));
}
