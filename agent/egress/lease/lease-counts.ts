import { isDeepStrictEqual } from 'node:util';
import type { LeaseState } from './lease-state.ts';
import type { LeaseCounts } from './thread-messages.ts';

/** Calls back with the counts of each state in which they are others than before. */
export function leaseCounts(changed: (counts: LeaseCounts) => void): (state: LeaseState) => void {
  let last: LeaseCounts | null = null;
  return ({ slots, awaySince }) => {
    const all = [...slots.values()];
    const counts: LeaseCounts = {
      alive: all.reduce((sum, { live }) => sum + live.size, 0),
      waiting: all.filter(({ waitsSince }) => waitsSince !== null).length,
      hindered: all.filter(({ hindrance }) => hindrance !== null).length,
      isAnswered: awaySince === null,
    };
    if (isDeepStrictEqual(counts, last)) return;
    last = counts;
    changed(counts);
  };
}
