import { isDeepStrictEqual } from 'node:util';
import { leaseName } from '../../../apis/egress/node-egress.ts';
import type { EgressGatewayStatus } from '../../../apis/egress/objects.ts';
import type { Clock } from '../../../lib/process/clock.ts';
import type { LeaseOrders, Taken, WrittenSlot } from '../../extension/extension.ts';
import type { Allocation } from '../allocation.ts';
import { type Heard, LeaseTable } from '../lease/lease-table.ts';
import {
  EarlierLeases,
  hasConflict,
  heartbeatLack,
  leaseOf,
  silencesAt,
  silentAt,
} from '../lease/readiness.ts';
import type { GatewayDecision } from './decide-gateway.ts';

interface LeasesOptions {
  /** That of the heartbeats. */
  readonly clock: Pick<Clock, 'now'>;
  /** Answers the heartbeats. */
  readonly granter: LeaseOrders;
  /** Called when owners may have to change. */
  readonly changed: () => void;
}

/**
 * The leases of floating addresses as the leader decides about them: passes the slots to the
 * granter as the API has them, and follows what it has granted.
 */
export class Leases {
  readonly #options: LeasesOptions;
  /** That of the granter, as of its last word. */
  readonly #table = new LeaseTable();
  readonly #earlier = new EarlierLeases();
  #allocations: readonly Allocation[] = [];
  /** By gateway and slot: the owner that was decided last, written or not. */
  #owners: ReadonlyMap<string, string> = new Map();
  #isServing = false;
  /** As the granter has them. */
  #slots: readonly WrittenSlot[] = [];
  #nodes: ReadonlySet<string> = new Set();

  constructor(options: LeasesOptions) {
    this.#options = options;
  }

  /** Leadership begins, with the statuses that the leader before has left. */
  begin(allocations: readonly Allocation[]): void {
    const { clock, granter } = this.#options;
    this.#allocations = allocations;
    this.#owners = new Map();
    const now = clock.now();
    this.#earlier.publish(now, allocations);
    const leases = [...allocations.map(leaseOf), ...this.#earlier.at(now)];
    this.#slots = allocations.flatMap(writtenSlots);
    this.#nodes = new Set();
    this.#table.begin(now, this.#slots, leases);
    granter.begin(this.#slots, leases);
    this.#isServing = true;
  }

  end(): void {
    this.#isServing = false;
    this.#table.end();
    this.#options.granter.end();
  }

  /** The state of the API; called by replicas that do not lead, too. */
  publish(allocations: readonly Allocation[]): void {
    if (allocations === this.#allocations) return;
    const now = this.#options.clock.now();
    this.#allocations = allocations;
    this.#earlier.publish(now, allocations);
    if (!this.#isServing) return;
    this.#useSlots();
    const nodes = new Set(allocations.flatMap((one) => one.nodes.map(({ name }) => name)));
    this.#table.forget(now, nodes);
    if (nodes.size === this.#nodes.size && nodes.isSubsetOf(this.#nodes)) return;
    this.#nodes = nodes;
    this.#options.granter.keepNodes(nodes);
  }

  /**
   * The decisions that are to be in the API: a slot that is to move is not granted any more.
   * Else an owner that has given it up would have it again, until its next heartbeat.
   */
  decided(decisions: readonly GatewayDecision[]): void {
    const owners = decisions.flatMap(({ allocation: { gateway }, status }) =>
      status.slots.map(({ name, node }) => [slotKey(leaseName(gateway), name), node] as const),
    );
    this.#owners = new Map(owners);
    this.#useSlots();
  }

  /** The granter has answered a heartbeat. */
  heartbeatAnswered({ at, request, grants }: Taken): void {
    if (!this.#isServing) return;
    const before = this.#table.heard(request.node);
    this.#table.follow(at, request, grants);
    const heard = this.#table.heard(request.node);
    if (heard !== undefined && isNews(before, heard, this.#shortest())) this.#options.changed();
  }

  /** As heartbeatLack. */
  lack(allocation: Allocation, node: string): string | null | undefined {
    return heartbeatLack(this.#table, allocation, node, this.#options.clock.now());
  }

  /** As hasConflict. */
  hasConflict(allocation: Allocation, node: string): boolean {
    return hasConflict(this.#table, allocation, node);
  }

  /**
   * The leaseSeconds that a slot needs in its status: its owner asks for a longer lease, or one may
   * still last. Null: none.
   */
  leaseSeconds(allocation: Allocation, slot: EgressGatewayStatus['slots'][number]): number | null {
    const lease = leaseOf(allocation);
    const now = this.#options.clock.now();
    const heard = this.#table.heard(slot.node);
    const isAsked = heard !== undefined && now < silentAt(heard, lease);
    const asked = isAsked ? heard.extension : 0;
    const isLeft = slot.leaseSeconds !== undefined && this.#table.outlasts(slot.addresses, now + lease);
    // The gateway's leaseSeconds were more until now, and the next leader would not know.
    const left = isLeft ? (slot.leaseSeconds ?? 0) * 1000 : this.#table.left(slot.addresses, now);
    const longest = Math.max(asked, left);
    return longest > lease ? Math.ceil(longest / 1000) : null;
  }

  /** Milliseconds until the first candidate counts as silent; Infinity: none can. */
  nextSilence(): number {
    const now = this.#options.clock.now();
    let next = Number.POSITIVE_INFINITY;
    for (const allocation of this.#allocations)
      for (const { name } of allocation.candidates)
        for (const at of silencesAt(this.#table, allocation, name)) if (at > now) next = Math.min(next, at);
    return next - now;
  }

  /** Slots and addresses under a lease. */
  counts(): { readonly slots: number; readonly addresses: number } {
    return this.#table.counts(this.#options.clock.now());
  }

  #useSlots(): void {
    const written = this.#allocations.flatMap(writtenSlots);
    const stays = ({ gateway, slot, node }: WrittenSlot): boolean =>
      (this.#owners.get(slotKey(gateway, slot)) ?? node) === node;
    const slots = written.filter(stays);
    if (!this.#isServing || isDeepStrictEqual(slots, this.#slots)) return;
    this.#slots = slots;
    this.#table.setSlots(slots);
    this.#options.granter.setSlots(slots);
  }

  #shortest(): number {
    return Math.min(Number.POSITIVE_INFINITY, ...this.#allocations.map(leaseOf));
  }
}

function slotKey(gateway: string, slot: string): string {
  return `${slot} ${gateway}`;
}

/** Whether the node says something else than before, or is back. */
function isNews(before: Heard | undefined, now: Heard, lease: number): boolean {
  if (before === undefined || now.at >= silentAt(before, lease)) return true;
  const factsOf = ({ ready, unreachable, extension }: Heard) => [ready, unreachable, extension];
  return !isDeepStrictEqual(factsOf(before), factsOf(now));
}

/**
 * The slots with an owner that the status of the gateway has, and of their addresses those of
 * policies.
 */
function writtenSlots(allocation: Allocation): WrittenSlot[] {
  const { gateway, slots } = allocation;
  // The statuses of other groups are written by their own controllers.
  if (gateway.spec.source !== 'Floating' || gateway.apiGroup !== 'nodewall.io') return [];
  const lease = leaseOf(allocation);
  const used = new Set(slots.flatMap(({ addresses }) => addresses));
  return (gateway.status?.slots ?? []).map(({ name, node, epoch, addresses, leaseSeconds = 0 }) => ({
    gateway: leaseName(gateway),
    slot: name,
    node,
    epoch,
    lease,
    addresses: addresses.filter((address) => used.has(address)),
    longest: Math.max(lease, leaseSeconds * 1000),
  }));
}
