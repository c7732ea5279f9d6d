import { LEASE_MARGIN, leaseName } from '../../../apis/egress/lease.ts';
import type { Allocation } from '../allocation.ts';
import { leaseOf } from './readiness.ts';

/**
 * Milliseconds for which the leader may still grant by a version of a gateway that this replica
 * knows to be over: it is behind, or cut off.
 */
const BEHIND = 30_000;

/**
 * The leases of gateways that were deleted, or whose leases were longer, as this replica has seen
 * them: no object tells a new leader of them, and they may still last.
 */
export class EarlierLeases {
  /** By gateway, in milliseconds. */
  #leases: ReadonlyMap<string, number> = new Map();
  readonly #over = new Map<string, { readonly lease: number; readonly until: number }>();

  /** @param now monotonic milliseconds */
  publish(now: number, allocations: readonly Pick<Allocation, 'gateway'>[]): void {
    const leases = new Map(allocations.map((one) => [leaseName(one.gateway), longestOf(one)]));
    for (const [name, before] of this.#leases) {
      if (before <= (leases.get(name) ?? 0)) continue;
      const lease = Math.max(before, this.#at(now, name));
      this.#over.set(name, { lease, until: now + BEHIND + lease + LEASE_MARGIN });
    }
    for (const [name, { until }] of this.#over) if (until <= now) this.#over.delete(name);
    this.#leases = leases;
  }

  /** Those that may still last, in milliseconds from when they are granted. */
  at(now: number): readonly number[] {
    return [...this.#over.keys()].map((name) => this.#at(now, name)).filter((lease) => lease > 0);
  }

  #at(now: number, name: string): number {
    const { lease, until } = this.#over.get(name) ?? { lease: 0, until: 0 };
    return now < until ? lease : 0;
  }
}

/** With that of a slot whose agent restarts. */
function longestOf(one: Pick<Allocation, 'gateway'>): number {
  const slots = one.gateway.status?.slots ?? [];
  return Math.max(leaseOf(one), ...slots.map(({ leaseSeconds = 0 }) => leaseSeconds * 1000));
}
