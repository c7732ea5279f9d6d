import type { Range } from './row.ts';

/** Sorted, disjoint ranges that are not adjacent. */
export type Ranges = readonly Range[];

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

/** Appends a range that begins after all others. */
export function append(ranges: Range[], [first, last]: Range): void {
  const before = ranges.at(-1);
  if (before !== undefined && before[1] + 1 === first) ranges[ranges.length - 1] = [before[0], last];
  else ranges.push([first, last]);
}

/** The union of ranges in any order. */
export function union(ranges: readonly Range[]): Range[] {
  const result: Range[] = [];
  for (const [first, last] of ranges.toSorted((a, b) => a[0] - b[0])) {
    const before = result.at(-1);
    if (before === undefined || before[1] + 1 < first) result.push([first, last]);
    else if (last > before[1]) result[result.length - 1] = [before[0], last];
  }
  return result;
}

/** Whether a range has a number of `ranges`. */
export function overlaps(ranges: Ranges, [first, last]: Range): boolean {
  const next = ranges[indexFrom(ranges, first)];
  return next !== undefined && next[0] <= last;
}

/** The index of the first range that ends at a number or after it. */
function indexFrom(ranges: Ranges, value: number): number {
  let low = 0;
  let high = ranges.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ranges[middle]?.[1] ?? value) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
