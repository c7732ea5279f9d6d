import {
  type HeldSlot,
  LEASE_MARGIN,
  type LeaseAnswer,
  type LeaseGrant,
  type LeaseRequest,
} from '../../../apis/heartbeat.ts';
import { addToList } from '../../../lib/sharing/lists.ts';
import type { LeaseGranterOptions, LeaseGrants, WrittenSlot } from '../../extension/extension.ts';

/** The last request of a node. */
export interface Heard {
  readonly boot: string;
  /** The boot before: what is left of it is too late. */
  readonly earlierBoot: string | null;
  readonly sent: number;
  readonly at: number;
  /** By gateway: null if the agent is ready. */
  readonly ready: ReadonlyMap<string, string | null>;
  readonly unreachable: ReadonlySet<string>;
  /** Milliseconds that the agent asked for; 0: it asked for no extension. */
  readonly extension: number;
}

/**
 * The grants of floating addresses that may be alive in a node's kernel, by the requests that this
 * leader has answered. An address is granted to a node only while no other node can have it.
 * Deterministic: every method has the time (monotonic milliseconds).
 */
export class LeaseTable {
  /** The slots of each node. */
  #slots: ReadonlyMap<string, readonly WrittenSlot[]> = new Map();
  readonly #heard = new Map<string, Heard>();
  /** The nodes that said last that they do not reach others. */
  readonly #complaining = new Set<string>();
  /** By address and node: when it ends, with the margin. */
  readonly #alive = new Map<string, Map<string, number>>();
  /** The addresses of each node in `#alive`. */
  readonly #addresses = new Map<string, Set<string>>();
  #since = Number.POSITIVE_INFINITY;
  /** Until when an address may be alive by a grant of the leader before, but for `#settled`. */
  #quietUntil = Number.POSITIVE_INFINITY;
  /** Granted by this leader, after a claim that shows that only this node has them. */
  readonly #settled = new Set<string>();

  /**
   * Leadership begins: every address may still be alive on any node by a grant of the leader
   * before, for the longest of all leases, as it may just have come from another slot or gateway.
   * Nothing is known of the nodes.
   *
   * @param leases of all gateways, in milliseconds
   */
  begin(now: number, slots: readonly WrittenSlot[], leases: readonly number[]): void {
    this.end();
    this.#since = now;
    const longest = Math.max(0, ...leases, ...slots.map((slot) => slot.longest));
    this.#quietUntil = now + longest + LEASE_MARGIN;
    this.setSlots(slots);
  }

  /** Forgets everything: nothing is granted until `begin`. */
  end(): void {
    this.#since = Number.POSITIVE_INFINITY;
    this.#quietUntil = Number.POSITIVE_INFINITY;
    for (const map of [this.#heard, this.#complaining, this.#alive, this.#addresses, this.#settled])
      map.clear();
    this.#slots = new Map();
  }

  /** The slots of the statuses; a slot without an owner is left out. */
  setSlots(slots: readonly WrittenSlot[]): void {
    const byNode = new Map<string, WrittenSlot[]>();
    for (const slot of slots) if (slot.node !== '') addToList(byNode, slot.node, slot);
    this.#slots = byNode;
  }

  /** When leadership began. */
  get since(): number {
    return this.#since;
  }

  /** The node's last request; undefined: none since leadership began. */
  heard(node: string): Heard | undefined {
    return this.#heard.get(node);
  }

  /** The number of nodes that have sent something. */
  get heardNodes(): number {
    return this.#heard.size;
  }

  /** The nodes that do not reach others, by what they said last. */
  complaints(): readonly (readonly [node: string, heard: Heard])[] {
    return [...this.#complaining].flatMap((node) => {
      const heard = this.#heard.get(node);
      return heard === undefined ? [] : [[node, heard] as const];
    });
  }

  /** Whether one of the addresses may be alive somewhere at that time, the margin not counted. */
  outlasts(addresses: readonly string[], time: number): boolean {
    const isAlive = (until: number): boolean => until - LEASE_MARGIN > time;
    return addresses.some(
      (address) =>
        isAlive(this.#quietEnd(address)) || [...(this.#alive.get(address)?.values() ?? [])].some(isAlive),
    );
  }

  /**
   * Milliseconds that are left of what this leader has granted of the addresses; 0 or less:
   * nothing.
   */
  left(addresses: readonly string[], now: number): number {
    const ends = addresses.flatMap((address) => [...(this.#alive.get(address)?.values() ?? [])]);
    return Math.max(0, ...ends) - LEASE_MARGIN - now;
  }

  /** The number of slots, and of addresses, that are under a lease. */
  counts(now: number): { readonly slots: number; readonly addresses: number } {
    const isAlive = (node: string, address: string): boolean =>
      (this.#alive.get(address)?.get(node) ?? 0) > now + LEASE_MARGIN;
    let [slots, count] = [0, 0];
    for (const [node, own] of this.#slots) {
      for (const { addresses } of own) {
        const alive = addresses.filter((address) => isAlive(node, address)).length;
        count += alive;
        if (alive > 0) slots++;
      }
    }
    return { slots, addresses: count };
  }

  /** Forgets deleted nodes, whose addresses count until they end. */
  forget(now: number, nodes: { has(node: string): boolean }): void {
    for (const node of this.#heard.keys()) {
      if (nodes.has(node)) continue;
      const own = [...(this.#addresses.get(node) ?? [])];
      for (const address of own)
        if ((this.#alive.get(address)?.get(node) ?? 0) <= now) this.#free(address, node);
      if (this.#addresses.get(node)?.size === 0) this.#heard.delete(node);
    }
  }

  /** Null: the request is older than one that was answered. */
  grant(now: number, request: LeaseRequest): readonly LeaseGrant[] | null {
    if (this.#isOld(request)) return null;
    this.#claim(now, request);
    const grants = (this.#slots.get(request.node) ?? []).flatMap(
      (slot) => this.#grant(now, slot, request) ?? [],
    );
    this.#record(now, request, grants);
    return grants;
  }

  /** Takes over a grant of another table (`take`), which decides by the slots that it has. */
  follow(now: number, request: LeaseRequest, grants: readonly LeaseGrant[]): void {
    if (this.#isOld(request)) return;
    this.#claim(now, request);
    this.#record(now, request, grants);
  }

  #isOld({ node, boot, sent }: LeaseRequest): boolean {
    const last = this.#heard.get(node);
    if (last === undefined) return false;
    return last.earlierBoot === boot || (last.boot === boot && sent <= last.sent);
  }

  #record(now: number, request: LeaseRequest, grants: readonly LeaseGrant[]): void {
    const { node, boot, sent, unreachable = [] } = request;
    const last = this.#heard.get(node);
    const isNewBoot = last !== undefined && last.boot !== boot;
    if (unreachable.length > 0) this.#complaining.add(node);
    else this.#complaining.delete(node);
    for (const { addresses, milliseconds } of grants) {
      const until = now + milliseconds + LEASE_MARGIN;
      for (const address of addresses) {
        this.#set(address, node, Math.max(until, this.#alive.get(address)?.get(node) ?? until));
        if (now < this.#quietUntil) this.#settled.add(address);
      }
    }
    this.#heard.set(node, {
      boot,
      sent,
      at: now,
      earlierBoot: isNewBoot ? last.boot : (last?.earlierBoot ?? null),
      ready: new Map(
        request.ready.map(({ gateway, ready, reason }) => [
          gateway,
          ready ? null : (reason ?? 'AgentNotReady'),
        ]),
      ),
      unreachable: new Set(unreachable),
      extension: (request.extendSeconds ?? 0) * 1000,
    });
  }

  /** The node has what it says, and no more than it was granted. */
  #claim(now: number, { node, held }: LeaseRequest): void {
    const claimed = new Map<string, number>();
    for (const { addresses, milliseconds } of held) {
      if (milliseconds <= 0) continue;
      for (const address of addresses) {
        const known = this.#alive.get(address)?.get(node) ?? Number.NEGATIVE_INFINITY;
        const until = Math.min(now + milliseconds + LEASE_MARGIN, Math.max(known, this.#quietEnd(address)));
        if (until > now) claimed.set(address, Math.max(until, claimed.get(address) ?? until));
      }
    }
    for (const address of this.#addresses.get(node) ?? [])
      if (!claimed.has(address)) this.#free(address, node);
    for (const [address, until] of claimed) this.#set(address, node, until);
  }

  #grant(now: number, written: WrittenSlot, { held, extendSeconds = 0 }: LeaseRequest): LeaseGrant | null {
    const { gateway, slot, epoch, lease, longest } = written;
    const claim = held.find((one) => one.gateway === gateway && one.slot === slot);
    const addresses = written.addresses.filter((address) => this.#isFree(now, address, written, claim));
    if (addresses.length === 0) return null;
    // A longer lease is in the status before it is granted: another leader must know.
    const milliseconds = Math.max(lease, Math.min(longest, extendSeconds * 1000));
    return { gateway, slot, epoch, addresses, milliseconds };
  }

  /** Whether no other node can have it. */
  #isFree(now: number, address: string, { node, epoch }: WrittenSlot, claim: HeldSlot | undefined): boolean {
    for (const [other, until] of this.#alive.get(address) ?? [])
      if (other !== node && until > now) return false;
    if (now >= this.#quietEnd(address)) return true;
    // The leader before has granted it to this node, and to no other after that: the status would
    // name another owner, or another slot.
    return (
      claim !== undefined &&
      claim.epoch === epoch &&
      claim.milliseconds > 0 &&
      claim.addresses.includes(address)
    );
  }

  #quietEnd(address: string): number {
    return this.#settled.has(address) ? Number.NEGATIVE_INFINITY : this.#quietUntil;
  }

  #set(address: string, node: string, until: number): void {
    const nodes = this.#alive.get(address) ?? new Map<string, number>();
    this.#alive.set(address, nodes.set(node, until));
    const own = this.#addresses.get(node) ?? new Set<string>();
    this.#addresses.set(node, own.add(address));
  }

  #free(address: string, node: string): void {
    this.#addresses.get(node)?.delete(address);
    const nodes = this.#alive.get(address);
    nodes?.delete(node);
    if (nodes?.size === 0) this.#alive.delete(address);
  }
}

/** Answers heartbeats, by the slots as the API has them. Decides nothing about owners. */
export class LeaseGranter implements LeaseGrants {
  readonly #options: LeaseGranterOptions;
  readonly #table = new LeaseTable();
  #isServing = false;
  #nodes: ReadonlySet<string> | null = null;

  constructor(options: LeaseGranterOptions) {
    this.#options = options;
  }

  begin(slots: readonly WrittenSlot[], leases: readonly number[]): void {
    this.#table.begin(this.#options.clock.now(), slots, leases);
    this.#nodes = null;
    this.#isServing = true;
  }

  setSlots(slots: readonly WrittenSlot[]): void {
    if (!this.#isServing) return;
    this.#table.setSlots(slots);
    this.#forget();
  }

  keepNodes(nodes: ReadonlySet<string>): void {
    if (!this.#isServing) return;
    this.#nodes = nodes;
    this.#forget();
  }

  end(): void {
    this.#isServing = false;
    this.#table.end();
  }

  /** Null: this process does not lead, or not with certainty. */
  grant(request: LeaseRequest): LeaseAnswer | null {
    const { clock, isLeader, answered: taken } = this.#options;
    if (!this.#isServing || !isLeader()) return null;
    const at = clock.now();
    const grants = this.#table.grant(at, request);
    if (grants !== null) taken({ at, request, grants });
    // The work above takes time, and the process may have been stopped.
    return isLeader() ? { grants: grants ?? [] } : null;
  }

  #forget(): void {
    if (this.#nodes !== null) this.#table.forget(this.#options.clock.now(), this.#nodes);
  }
}
