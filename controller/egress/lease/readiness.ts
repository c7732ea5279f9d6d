import { leaseName } from '../../../apis/egress/node-egress.ts';
import { ADDRESS_CONFLICT, LEASE_MARGIN } from '../../../apis/heartbeat.ts';
import type { Allocation } from '../allocation.ts';
import type { Heard, LeaseTable } from './lease-table.ts';

/** Milliseconds: what a node said of others counts so long. */
const FRESH = 3_000;
/** So many source nodes must say that they do not reach a gateway node, if there are so many. */
const SEVERAL = 2;

/**
 * Milliseconds after the beginning of leadership, and leases, after which an owner of source Node
 * that was never heard counts as silent: later than one of floating addresses, as it may come back
 * to a new leader late, and nothing else ends by itself meanwhile.
 */
const NEVER_HEARD = 5_000;
const NEVER_HEARD_LEASES = 2;

/** The lease of a gateway in milliseconds. */
export function leaseOf({ gateway }: Pick<Allocation, 'gateway'>): number {
  return gateway.spec.failover.leaseSeconds * 1000;
}

/** When the node counts as silent, if no other request comes. */
export function silentAt({ at, extension }: Heard, lease: number): number {
  return at + Math.max(lease, extension);
}

/** When a node counts as silent that this leader has not heard of: its leases may be longer. */
function firstSilenceAt(table: LeaseTable, allocation: Pick<Allocation, 'gateway'>, node: string): number {
  const slots = allocation.gateway.status?.slots.filter((slot) => slot.node === node) ?? [];
  const longer = slots.map(({ leaseSeconds = 0 }) => leaseSeconds * 1000);
  return table.since + Math.max(leaseOf(allocation), ...longer) + LEASE_MARGIN;
}

/** When time alone may change what heartbeatLack says, if no request comes from the node. */
export function silencesAt(
  table: LeaseTable,
  allocation: Pick<Allocation, 'gateway'>,
  node: string,
): readonly number[] {
  const lease = leaseOf(allocation);
  const heard = table.heard(node);
  if (heard !== undefined) return [silentAt(heard, lease)];
  const first = firstSilenceAt(table, allocation, node);
  return allocation.gateway.spec.source === 'Node' ? [first, neverHeardAt(table, lease)] : [first];
}

function neverHeardAt(table: LeaseTable, lease: number): number {
  return table.since + Math.max(NEVER_HEARD, NEVER_HEARD_LEASES * lease);
}

/**
 * Why a candidate of a gateway takes no traffic, as the heartbeats say; null: it does. Undefined:
 * they say nothing of it yet.
 */
export function heartbeatLack(
  table: LeaseTable,
  allocation: Pick<Allocation, 'gateway' | 'candidates'>,
  node: string,
  now: number,
): string | null | undefined {
  const lease = leaseOf(allocation);
  const heard = table.heard(node);
  if (heard === undefined && now < firstSilenceAt(table, allocation, node)) return undefined;
  if (heard === undefined) {
    if (allocation.gateway.spec.source !== 'Node') return 'AgentSilent';
    if (isUnreachable(table, allocation, node, now)) return 'Unreachable';
    // Where none is heard, that says nothing of this one, and there is no other to go by.
    const isSilent = now >= neverHeardAt(table, lease) && hearsAnother(table, allocation, node, now);
    return isSilent ? 'AgentSilent' : null;
  }
  // Before its lease and the margin are over, so that the next owner is in the status by then.
  if (now >= silentAt(heard, lease)) return 'AgentSilent';
  // A new leader has not heard all nodes yet: it would take one for several.
  const isEarly = now < firstSilenceAt(table, allocation, node);
  if (!isEarly && isUnreachable(table, allocation, node, now)) return 'Unreachable';
  const said = heard.ready.get(leaseName(allocation.gateway));
  return said === ADDRESS_CONFLICT ? null : said;
}

function hearsAnother(
  table: LeaseTable,
  allocation: Pick<Allocation, 'gateway' | 'candidates'>,
  node: string,
  now: number,
): boolean {
  return allocation.candidates.some(({ name }) => {
    const heard = table.heard(name);
    return name !== node && heard !== undefined && now < silentAt(heard, leaseOf(allocation));
  });
}

/** Whether the node says that another host has one of its addresses of the gateway. */
export function hasConflict(
  table: LeaseTable,
  { gateway }: Pick<Allocation, 'gateway'>,
  node: string,
): boolean {
  return table.heard(node)?.ready.get(leaseName(gateway)) === ADDRESS_CONFLICT;
}

/**
 * Whether several nodes say so. Who reaches no candidate of the gateway at all has lost its own
 * network, and does not count.
 */
function isUnreachable(
  table: LeaseTable,
  { candidates }: Pick<Allocation, 'candidates'>,
  node: string,
  now: number,
): boolean {
  let count = 0;
  for (const [from, { at, unreachable }] of table.complaints()) {
    if (from === node || now - at > FRESH || !unreachable.has(node)) continue;
    if (candidates.some(({ name }) => name !== from && !unreachable.has(name))) count++;
  }
  return count > 0 && count >= Math.min(SEVERAL, table.heardNodes - 1);
}

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
