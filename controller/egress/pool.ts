import {
  BITS,
  type Cidr,
  FAMILIES,
  type Family,
  formatAddress,
  parseAddress,
  parseCidr,
} from '../../lib/net/address.ts';
import { type Interval, toCidrs, toInterval, union } from '../../lib/net/interval.ts';
import { hasInterval } from './segments.ts';

/** The addresses of a gateway: its ranges in their order, by family. */
export interface Pool {
  readonly ranges: Readonly<Record<Family, readonly Interval[]>>;
  /** The same, merged, for look-ups. */
  readonly merged: Readonly<Record<Family, readonly Interval[]>>;
}

/** @param ranges `IP`, `IP-IP` or CIDR, validated */
export function toPool(ranges: readonly string[]): Pool {
  const found: Record<Family, Interval[]> = { 4: [], 6: [] };
  for (const text of ranges) {
    const range = poolRange(text);
    if (range !== null) found[range.family].push(range.interval);
  }
  return { ranges: found, merged: { 4: union(found[4]), 6: union(found[6]) } };
}

/** Null for a text that has none of the forms. */
export function poolRange(text: string): { readonly family: Family; readonly interval: Interval } | null {
  const cidr = parseCidr(text)?.cidr;
  if (cidr !== undefined) return { family: cidr.family, interval: usable(cidr) };
  const [first, last] = text.split('-').map((end) => parseAddress(end.trim()));
  if (first === undefined || first === null || last === null) return null;
  return { family: first.family, interval: { first: first.value, last: (last ?? first).value } };
}

/** An IPv4 network's own address and its broadcast address are no host's; a /31 and /32 has none. */
function usable(cidr: Cidr): Interval {
  const { first, last } = toInterval(cidr);
  const hasEnds = cidr.family === 4 && cidr.length <= BITS[4] - 2;
  return hasEnds ? { first: first + 1n, last: last - 1n } : { first, last };
}

export function hasFamily({ merged }: Pool, family: Family): boolean {
  return merged[family].length > 0;
}

export function isInPool({ merged }: Pool, text: string): boolean {
  const address = parseAddress(text);
  return address !== null && hasInterval(merged[address.family], address.value);
}

/** The addresses of a family, in the order of the ranges; a pool may have more than can be listed. */
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
export function addressAt({ ranges }: Pool, family: Family, place: bigint): string | null {
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
