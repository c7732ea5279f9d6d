import type { Cidr } from './address.ts';
import { subtract, toCidrs, toInterval, union } from './interval.ts';

/**
 * Static IPv4 blocks without their exceptions, merged: single addresses, and the fewest prefixes
 * for the rest.
 */
export interface MergedIPv4 {
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
