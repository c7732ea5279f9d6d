import type { Cidr } from './address.ts';
import { subtract, toCidrs, toInterval, union } from './interval.ts';

/**
 * Static IPv4 blocks less their exceptions, merged: what is one address, and the fewest prefixes
 * for the rest.
 */
export interface MergedIPv4 {
  /** Sorted, as unsigned 32-bit numbers. */
  readonly singles: readonly number[];
  /** Sorted, none is a single address. */
  readonly prefixes: readonly Cidr[];
}

/**
 * A block as one number, so that a million of them are 8 MB and sort as numbers: by address, the
 * larger first.
 */
const LENGTHS = 64;

/** In numbers throughout, for lists of a million: n log n, and no object for a single address. */
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

/** The fewest prefixes that cover exactly this range; none where it is empty. */
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
