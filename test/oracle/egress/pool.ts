import type { Address, AddressRange, Family } from '../address.ts';
import { inRange, parseAddress, parseCidr } from '../address.ts';

/** The addresses of a range of a pool: `IP`, `IP-IP` or CIDR (docs/egress.md). */
export function parseRange(text: string): AddressRange {
  if (text.includes('/')) return usable(text);
  const [first, last = first] = text.split('-').map((part) => parseAddress(part.trim()));
  if (first === undefined || last === undefined || first.family !== last.family || first.value > last.value) {
    throw new Error(`not a range of addresses: ${text}`);
  }
  return { family: first.family, first: first.value, last: last.value };
}

/** An IPv4 CIDR up to /30 gives neither its network address nor its broadcast address. */
function usable(cidr: string): AddressRange {
  const range = parseCidr(cidr);
  const hasBroadcast = range.family === 4 && range.last - range.first >= 3n;
  return hasBroadcast ? { ...range, first: range.first + 1n, last: range.last - 1n } : range;
}

export function isInAny(ranges: readonly AddressRange[], address: Address): boolean {
  return ranges.some((range) => inRange(range, address));
}

export function ofFamily(ranges: readonly AddressRange[], family: Family): AddressRange[] {
  return ranges.filter((range) => range.family === family);
}

/** How many addresses the ranges have together; an address in two of them counts once. */
export function countOf(ranges: readonly AddressRange[]): bigint {
  let count = 0n;
  let end = -1n;
  for (const { first, last } of [...ranges].sort((a, b) => (a.first < b.first ? -1 : 1))) {
    const from = first > end ? first : end + 1n;
    if (last >= from) count += last - from + 1n;
    if (last > end) end = last;
  }
  return count;
}
