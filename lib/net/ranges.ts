/** Arithmetic on inclusive ranges of numbers, such as ports. */

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
