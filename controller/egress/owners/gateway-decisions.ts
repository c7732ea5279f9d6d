import { isDeepStrictEqual } from 'node:util';
import type { EgressGateway, EgressGatewayStatus } from '../../../apis/egress/objects.ts';
import type { Node } from '../../../apis/objects.ts';
import type { WallClock } from '../../../lib/process/clock.ts';
import type { Allocation } from '../allocation.ts';
import type { CompiledEgress } from '../compile-egress.ts';
import { decideGateway, type GatewayDecision, type SlotMove } from './decide-gateway.ts';
import { HoldTimes } from './hold-times.ts';
import type { Leases } from './leases.ts';

interface GatewayDecisionsOptions {
  readonly clock: WallClock;
  readonly leases: Pick<Leases, 'lack' | 'hasConflict' | 'leaseSeconds' | 'nextSilence'>;
  /**
   * Why the agent of the node takes no traffic, as its reports say; null: it does. Undefined: too
   * little is known yet, and nothing changes meanwhile.
   */
  readonly agentLack: (node: string) => string | null | undefined;
  /** Called when slots of a gateway get other owners, before that is written. */
  readonly moved: (gateway: string, moves: readonly SlotMove[]) => void;
}

/** Milliseconds between two looks at addresses that are held back. */
const HELD_AGAIN = 500;

/** A gateway's decision, and the facts that it was made of. */
interface Decided {
  readonly before: Allocation;
  readonly facts: unknown;
  readonly decision: GatewayDecision;
}

/**
 * The leader's decisions for all gateways, over one state after another, at the cost of the change.
 */
export class GatewayDecisions {
  readonly #options: GatewayDecisionsOptions;
  readonly #holdTimes: HoldTimes;
  readonly #addresses = new LatestAddresses();
  #decided: ReadonlyMap<EgressGateway, Decided> = new Map();

  constructor(options: GatewayDecisionsOptions) {
    this.#options = options;
    this.#holdTimes = new HoldTimes(options.clock);
  }

  decide({ allocations, nodes }: Pick<CompiledEgress, 'allocations' | 'nodes'>): readonly GatewayDecision[] {
    const byName = new Map(nodes.map((node) => [node.name, node]));
    this.#holdTimes.begin();
    const decided = new Map(
      allocations.map((before) => {
        const unready = new Map(
          before.candidates.map(({ name }) => [name, this.#unready(byName.get(name), before)] as const),
        );
        return [before.gateway, this.#one(before, unready)] as const;
      }),
    );
    this.#decided = decided;
    this.#addresses.keep(new Set(allocations.map(({ gateway }) => nameOf(gateway))));
    return [...decided.values()].map(({ decision }) => decision);
  }

  /** Forgets what was decided: another leader may have decided since. */
  clear(): void {
    this.#decided = new Map();
    this.#holdTimes.clear();
    this.#addresses.clear();
  }

  /** Milliseconds until time alone may change a decision; Infinity: never. */
  next(): number {
    const silence = this.#options.leases.nextSilence();
    // A time that is over stays so until what follows from it is written.
    const held = Math.max(this.#holdTimes.next ?? Number.POSITIVE_INFINITY, HELD_AGAIN);
    return Math.max(0, Math.min(silence, held));
  }

  /** The number of candidates that are not ready. */
  nodesNotReady(): number {
    const nodes = [...this.#decided.values()].flatMap(({ decision }) => decision.status.nodes);
    return new Set(nodes.flatMap(({ name, ready }) => (ready ? [] : [name]))).size;
  }

  #one(before: Allocation, unready: ReadonlyMap<string, string | null>): Decided {
    const { gateway } = before;
    const slots = gateway.status?.slots ?? [];
    const leaseSeconds = new Map(
      slots.map((slot) => [slot.name, this.#options.leases.leaseSeconds(before, slot)] as const),
    );
    const conflicts = new Set(
      before.candidates.flatMap(({ name }) => (this.#options.leases.hasConflict(before, name) ? [name] : [])),
    );
    const facts = [unready, leaseSeconds, conflicts];
    const last = this.#decided.get(gateway);
    const holdsBack =
      last?.decision.status.addresses?.some(({ heldUntil }) => heldUntil !== undefined) ?? true;
    if (last?.before === before && !holdsBack && isDeepStrictEqual(last.facts, facts)) return last;
    const decision = decideGateway(this.#withLatest(before), {
      unready: (name) => unready.get(name) ?? null,
      holdTimeOf: (record, phase) => this.#holdTimes.of(nameOf(gateway), record, phase),
      leaseSecondsOf: (name) => leaseSeconds.get(name) ?? null,
      hasConflict: (name) => conflicts.has(name),
    });
    if (decision.moves.length > 0 && !isDeepStrictEqual(decision.moves, last?.decision.moves))
      this.#options.moved(gateway.name, decision.moves);
    this.#addresses.decided(nameOf(gateway), decision.status);
    return { before, facts, decision };
  }

  /** With the addresses as they were decided last. */
  #withLatest(before: Allocation): Allocation {
    const { gateway } = before;
    const status = this.#addresses.of(nameOf(gateway), gateway.status);
    return status === gateway.status ? before : { ...before, gateway: { ...gateway, status } };
  }

  /** Null: the node can take traffic. */
  #unready(node: Node | undefined, allocation: Allocation): string | null {
    if (node === undefined) return 'NoNode';
    if (node.unready !== undefined) return node.unready;
    if (node.internalAddresses === undefined) return 'NoInternalIP';
    const { agentLack, leases } = this.#options;
    const reported = agentLack(node.name);
    if (typeof reported === 'string') return reported;
    const said = leases.lack(allocation, node.name);
    if (said !== undefined && (said !== null || reported === null)) return said;
    // A new leader has not heard of all agents yet.
    const last = allocation.gateway.status?.nodes.find(({ name }) => name === node.name);
    return (last?.ready ?? true) ? null : (last?.reason ?? 'AgentSilent');
  }
}

function nameOf({ uid, name }: EgressGateway): string {
  return `${uid} ${name}`;
}

type Status = Pick<EgressGatewayStatus, 'slots' | 'addresses'>;

interface Known {
  /** As the API had it last. */
  readonly seen: Status | null;
  /** The decisions since, in order; the last one counts. */
  readonly pending: readonly Status[];
}

const MOST_PENDING = 64;

/**
 * The holder and slot of each gateway's addresses, by the latest decision: the leader's decision is
 * in force before its own watch shows it, and must not be made otherwise meanwhile. A status that
 * somebody else wrote goes first. Owners of slots are always those of the API.
 */
export class LatestAddresses {
  #known = new Map<string, Known>();

  /**
   * @param gateway its uid and name
   * @param seen as the API has it
   * @returns `seen` itself if nothing was decided since
   */
  of(gateway: string, seen: EgressGatewayStatus | null): EgressGatewayStatus | null {
    const { pending } = this.#follow(gateway, seen);
    const latest = pending.at(-1);
    if (latest === undefined) return seen;
    const owners = new Map(seen?.slots.map((slot) => [slot.name, slot]));
    const slots = latest.slots.map((slot) => ({
      ...(owners.get(slot.name) ?? slot),
      addresses: slot.addresses,
    }));
    return { nodes: [], ...seen, ...latest, slots };
  }

  /** After `of`. */
  decided(gateway: string, status: Status): void {
    const known = this.#known.get(gateway);
    if (known === undefined || isSame(known.pending.at(-1) ?? known.seen, status)) return;
    const { slots, addresses = [] } = status;
    const pending = [...known.pending, { slots, addresses }].slice(-MOST_PENDING);
    this.#known.set(gateway, { ...known, pending });
  }

  /** Forgets gateways that are gone. */
  keep(gateways: ReadonlySet<string>): void {
    for (const gateway of this.#known.keys()) if (!gateways.has(gateway)) this.#known.delete(gateway);
  }

  clear(): void {
    this.#known = new Map();
  }

  #follow(gateway: string, seen: Status | null): Known {
    const known = this.#known.get(gateway) ?? { seen, pending: [] };
    const at = known.pending.findLastIndex((status) => isSame(status, seen));
    const isOld = known.seen === seen || isSame(known.seen, seen);
    const pending = isOld ? known.pending : at < 0 ? [] : known.pending.slice(at + 1);
    const next = { seen, pending };
    this.#known.set(gateway, next);
    return next;
  }
}

function isSame(a: Status | null, b: Status | null): boolean {
  return isDeepStrictEqual(placesIn(a), placesIn(b));
}

function placesIn(status: Status | null): unknown {
  return [status?.addresses ?? [], status?.slots.map(({ name, addresses }) => [name, addresses]) ?? []];
}
