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
