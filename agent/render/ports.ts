import type { PortRange } from '../../apis/compiled.ts';

/** Arithmetic on inclusive port ranges. */

export const ALL_PORTS: PortRange = [0, 65535];

/** The intersection of two unions (lib/net/ranges.ts), which is one again. */
export function intersectPorts(a: readonly PortRange[], b: readonly PortRange[]): readonly PortRange[] {
  const common: PortRange[] = [];
  for (const [first, last] of a) {
    for (const [otherFirst, otherLast] of b) {
      const range: PortRange = [Math.max(first, otherFirst), Math.min(last, otherLast)];
      if (range[0] <= range[1]) common.push(range);
    }
  }
  return common;
}

export function portCount(ranges: readonly PortRange[]): number {
  return ranges.reduce((sum, [first, last]) => sum + last - first + 1, 0);
}

/** The points at which membership in any of the ranges changes, sorted: [first, last + 1, …]. */
export function boundaries(ranges: readonly PortRange[]): number[] {
  const points = new Set<number>();
  for (const [first, last] of ranges) points.add(first).add(last + 1);
  return [...points].sort((a, b) => a - b);
}
