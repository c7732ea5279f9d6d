import type { Range } from './row.ts';

/** Sorted, disjoint ranges that are not adjacent. */
export type Ranges = readonly Range[];

/** The parts of `ranges` inside and outside of a range. */
export function cut(
  ranges: Ranges,
  [first, last]: Range,
): { readonly inside: Range[]; readonly outside: Range[] } {
  const inside: Range[] = [];
  const outside: Range[] = [];
  for (const [from, to] of ranges) {
    if (to < first || from > last) {
      outside.push([from, to]);
      continue;
    }
    if (from < first) outside.push([from, first - 1]);
    inside.push([Math.max(from, first), Math.min(to, last)]);
    if (to > last) outside.push([last + 1, to]);
  }
  return { inside, outside };
}

/** Sorts, and joins adjacent ranges. The ranges are disjoint. */
export function joined(ranges: Ranges): Range[] {
  const result: Range[] = [];
  for (const [first, last] of ranges.toSorted((a, b) => a[0] - b[0])) {
    const before = result.at(-1);
    if (before !== undefined && before[1] + 1 === first) result[result.length - 1] = [before[0], last];
    else result.push([first, last]);
  }
  return result;
}

/** Appends a range that begins after all others. */
export function append(ranges: Range[], [first, last]: Range): void {
  const before = ranges.at(-1);
  if (before !== undefined && before[1] + 1 === first) ranges[ranges.length - 1] = [before[0], last];
  else ranges.push([first, last]);
}
