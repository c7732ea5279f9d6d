import {
  BITS,
  type Cidr,
  type Family,
  formatAddress,
  formatCidr,
  lastAddress,
  parseAddress,
  parseCidr,
} from './address.ts';

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

/** One range of a pool. */
export interface PoolRange {
  readonly family: Family;
  /** The addresses that may be given out: of an IPv4 CIDR neither network nor broadcast. */
  readonly addresses: Interval;
  /** In canonical form, host bits masked. */
  readonly text: string;
  /** Whether it is a CIDR with bits set after the prefix. */
  readonly hostBits: boolean;
}

/** Parses `IP`, `IP-IP` or a CIDR; null: it is none of them, or the first address is the higher. */
export function parsePoolRange(text: string): PoolRange | null {
  const parsed = parseCidr(text);
  if (parsed !== null) {
    const { cidr, hostBits } = parsed;
    const { first, last } = toInterval(cidr);
    const ends = cidr.family === 4 && cidr.length <= BITS[4] - 2 ? 1n : 0n;
    const addresses = { first: first + ends, last: last - ends };
    return { family: cidr.family, addresses, text: formatCidr(cidr), hostBits };
  }
  const [from = '', to = from, ...more] = text.split('-');
  const first = parseAddress(from);
  const last = parseAddress(to);
  if (first === null || last === null || more.length > 0) return null;
  if (first.family !== last.family || first.value > last.value) return null;
  const addresses = { first: first.value, last: last.value };
  const ends = first.value === last.value ? [first] : [first, last];
  return { family: first.family, addresses, text: ends.map(formatAddress).join('-'), hostBits: false };
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

/**
 * Static IPv4 blocks without their exceptions, merged: single addresses, and the fewest prefixes
 * for the rest.
 */
interface MergedIPv4 {
  /** Sorted, as unsigned 32-bit numbers. */
  readonly singles: readonly number[];
  /** Sorted; none is a single address. */
  readonly prefixes: readonly Cidr[];
}

/**
 * Factor to pack a block into one number, address × 64 + prefix length: a million blocks take 8 MB
 * and sort as numbers, by address and then the larger block first.
 */
const LENGTHS = 64;

/**
 * Merges the blocks; those of other families are skipped. Works on numbers, without an object for
 * each single address, for lists of a million: O(n log n).
 */
export function mergeIPv4(
  blocks: Iterable<{ readonly cidr: Cidr; readonly except: readonly Cidr[] }>,
): MergedIPv4 {
  const packed: number[] = [];
  for (const { cidr, except } of blocks) {
    if (cidr.family !== 4) continue;
    if (except.length === 0) packed.push(Number(cidr.value) * LENGTHS + cidr.length);
    else for (const rest of without(cidr, except)) packed.push(Number(rest.value) * LENGTHS + rest.length);
  }
  const merged: Merged = { singles: [], prefixes: [] };
  let first = -1;
  let last = -2;
  for (const block of Float64Array.from(packed).sort()) {
    const start = Math.floor(block / LENGTHS);
    const end = start + 2 ** (32 - (block % LENGTHS)) - 1;
    if (start > last + 1) {
      cover(first, last, merged);
      first = start;
      last = end;
    } else if (end > last) last = end;
  }
  cover(first, last, merged);
  return merged;
}

interface Merged {
  readonly singles: number[];
  readonly prefixes: Cidr[];
}

function without(cidr: Cidr, except: readonly Cidr[]): Cidr[] {
  return subtract([toInterval(cidr)], union(except.map(toInterval))).flatMap((rest) => toCidrs(4, rest));
}

/** The fewest prefixes that cover exactly this range; none if it is empty. */
function cover(first: number, last: number, { singles, prefixes }: Merged): void {
  for (let value = first; value <= last; ) {
    let size = 1;
    let length = 32;
    while (length > 0 && value % (2 * size) === 0 && value + 2 * size - 1 <= last) {
      size *= 2;
      length--;
    }
    if (length === 32) singles.push(value);
    else prefixes.push({ family: 4, value: BigInt(value), length });
    value += size;
  }
}

/** An inclusive range of numbers, such as ports. */
export type Range = readonly [first: number, last: number];

/** Sorted, disjoint ranges that are not adjacent. */
export type Ranges = readonly Range[];

/** The union of ranges in any order, in O(n log n). */
export function unionRanges(ranges: readonly Range[]): Ranges {
  if (ranges.length < 2) return ranges;
  const merged: Range[] = [];
  for (const [first, last] of ranges.toSorted((a, b) => a[0] - b[0])) {
    const before = merged.at(-1);
    if (before === undefined || first > before[1] + 1) merged.push([first, last]);
    else if (last > before[1]) merged[merged.length - 1] = [before[0], last];
  }
  return merged;
}

/** Appends a range that begins after all others. */
export function appendRange(ranges: Range[], [first, last]: Range): void {
  const before = ranges.at(-1);
  if (before !== undefined && before[1] + 1 === first) ranges[ranges.length - 1] = [before[0], last];
  else ranges.push([first, last]);
}

/** The numbers from 0 to `last` that are in none of the ranges. */
export function complement(ranges: Ranges, last: number): Ranges {
  const others: Range[] = [];
  let next = 0;
  for (const [from, to] of ranges) {
    if (from > next) others.push([next, from - 1]);
    next = to + 1;
  }
  return next > last ? others : [...others, [next, last]];
}

export const ALL_PORTS: Range = [0, 65535];

/** The intersection of two unions, which is one again. */
export function intersectPorts(a: readonly Range[], b: readonly Range[]): readonly Range[] {
  const common: Range[] = [];
  for (const [first, last] of a) {
    for (const [otherFirst, otherLast] of b) {
      const range: Range = [Math.max(first, otherFirst), Math.min(last, otherLast)];
      if (range[0] <= range[1]) common.push(range);
    }
  }
  return common;
}

export function portCount(ranges: readonly Range[]): number {
  return ranges.reduce((sum, [first, last]) => sum + last - first + 1, 0);
}

/** The points at which membership in any of the ranges changes, sorted: [first, last + 1, …]. */
export function boundaries(ranges: readonly Range[]): number[] {
  const points = new Set<number>();
  for (const [first, last] of ranges) points.add(first).add(last + 1);
  return [...points].sort((a, b) => a - b);
}
