import type { Range, Ranges } from '../../lib/net/ranges.ts';
import { firstAt } from '../../lib/sharing/order.ts';

/** Takes a range out of `ranges`; returns the parts of it that were there. Binary search. */
export function take(ranges: Range[], [first, last]: Range): Range[] {
  const inside: Range[] = [];
  const rest: Range[] = [];
  const begin = indexFrom(ranges, first);
  let end = begin;
  for (let range = ranges[end]; range !== undefined && range[0] <= last; range = ranges[++end]) {
    const [from, to] = range;
    if (from < first) rest.push([from, first - 1]);
    inside.push([Math.max(from, first), Math.min(to, last)]);
    if (to > last) rest.push([last + 1, to]);
  }
  if (end > begin) ranges.splice(begin, end - begin, ...rest);
  return inside;
}

/** Whether a range has a number of `ranges`. */
export function overlaps(ranges: Ranges, [first, last]: Range): boolean {
  const next = ranges[indexFrom(ranges, first)];
  return next !== undefined && next[0] <= last;
}

/** The index of the first range that ends at a number or after it. */
function indexFrom(ranges: Ranges, value: number): number {
  return firstAt(0, ranges.length, (i) => (ranges[i]?.[1] ?? value) >= value);
}
