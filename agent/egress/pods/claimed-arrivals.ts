import { isDeepStrictEqual } from 'node:util';
import { bucketsOf } from '../../../apis/egress/messages.ts';
import type { EgressArrival, NodeEgress, ServedClass } from '../../../apis/egress/node-egress.ts';
import { familyOf } from '../../../lib/net/address.ts';
import { BucketMap } from '../../../lib/sharing/bucket-map.ts';
import type { Claim } from './claim.ts';

/** Milliseconds after which a claim ends that its node does not repeat. */
const LIFE = 60_000;
/** Claims of one node at a time: its pods that the controller does not know yet. */
const MOST = 2_048;
/** Addresses whose last pod is known. */
const MOST_KNOWN = 200_000;

interface Held extends Claim {
  readonly node: string;
  readonly until: number;
  /** As it was made last: the same object as long as the class is. */
  made: { readonly of: ServedClass; readonly arrival: EgressArrival } | null;
}

/**
 * A gateway's pods by the claims of their nodes, over what the controller says. A node may claim
 * only classes that pods of it have, and no address that the controller gives to another node, as
 * long as that node has not withdrawn it. Once the controller says the same, a claim is over.
 */
export class ClaimedArrivals {
  /** By node, then by address. */
  readonly #claims = new Map<string, Map<string, Held>>();
  /** The pod or node that each address belonged to last. */
  readonly #last = new Map<string, string>();

  /**
   * Claims that may not count now are left out: their node repeats them.
   * @returns the addresses that another pod had before: their connections must end before the
   *   claims count
   */
  accept(node: string, claims: readonly Claim[], egress: NodeEgress, now: number): string[] {
    const own = this.#claims.get(node) ?? new Map<string, Held>();
    const reused: string[] = [];
    for (const claim of claims) {
      const { address, pod } = claim;
      const held = { ...claim, node, until: now + LIFE, made: own.get(address)?.made ?? null };
      own.delete(address);
      if (own.size >= MOST || !this.#mayClaim(held, egress)) continue;
      own.set(address, held);
      if (claim.class === null) continue;
      const before = this.#last.get(address);
      if (before === pod) continue;
      if (before !== undefined || egress.arrivals.has(address)) reused.push(address);
      this.#last.delete(address);
      this.#last.set(address, pod);
      const [oldest] = this.#last.keys();
      if (this.#last.size > MOST_KNOWN && oldest !== undefined) this.#last.delete(oldest);
    }
    if (own.size > 0) this.#claims.set(node, own);
    return reused;
  }

  /** As NodeEgress.arrivals. */
  over(egress: NodeEgress, now: number): NodeEgress['arrivals'] {
    const set = new Map<string, EgressArrival>();
    const removed = new Set<string>();
    for (const [node, claims] of this.#claims) {
      for (const [address, held] of claims) {
        const there = egress.arrivals.get(address);
        if (now > held.until || isOver(held, there, egress)) claims.delete(address);
        else if (held.class === null) removed.add(address);
        else if (this.#mayHave(node, address, there)) {
          const arrival = arrivalOf(held, egress);
          if (arrival !== null) set.set(address, arrival);
        }
      }
      if (claims.size === 0) this.#claims.delete(node);
    }
    for (const address of set.keys()) removed.delete(address);
    if (set.size + removed.size === 0) return egress.arrivals;
    return BucketMap.of(egress.arrivals, bucketsOf('arrivals')).with(set, removed);
  }

  /** Milliseconds until a claim ends, unless it is repeated; null: there is none. */
  next(now: number): number | null {
    let next: number | null = null;
    for (const claims of this.#claims.values())
      for (const { until } of claims.values()) next = Math.min(next ?? until, until);
    return next === null ? null : Math.max(0, next - now + 1);
  }

  /** Else it would end the connections of others. */
  #mayClaim(held: Held, egress: NodeEgress): boolean {
    if (held.class === null) return true;
    const there = egress.arrivals.get(held.address);
    return arrivalOf(held, egress) !== null && this.#mayHave(held.node, held.address, there);
  }

  #mayHave(node: string, address: string, there: EgressArrival | undefined): boolean {
    if (there === undefined || there.node === node) return true;
    return this.#claims.get(there.node)?.get(address)?.class === null;
  }
}

/** Whether a claim is in force with these arrivals. */
export function isInForce(node: string, claim: Claim, egress: NodeEgress): boolean {
  const { address } = claim;
  const there = egress.arrivals.get(address);
  if (claim.class === null) return there?.node !== node;
  const wanted = arrivalOf({ ...claim, node, until: 0, made: null }, egress);
  return wanted !== null && (wanted.takes.length === 0 || isSameWay(there, wanted));
}

/** The controller says the same, or nothing that the claim changes. */
function isOver(held: Held, there: EgressArrival | undefined, egress: NodeEgress): boolean {
  if (held.class === null) return there?.node !== held.node;
  return there !== undefined && isSameWay(there, arrivalOf(held, egress));
}

function isSameWay(a: EgressArrival | undefined, b: EgressArrival | null): boolean {
  return a?.node === b?.node && isDeepStrictEqual(a?.takes, b?.takes);
}

/** Null: the node has no such class here. */
function arrivalOf(held: Held, { served }: NodeEgress): EgressArrival | null {
  const { node, address, class: id } = held;
  const one = served.get(id ?? '');
  if (one === undefined || !one.nodes.includes(node)) return null;
  const takes = familyOf(address) === 4 ? one.ipv4 : one.ipv6;
  if (held.made?.of !== one || held.made.arrival.takes !== takes)
    held.made = { of: one, arrival: { node, takes } };
  return held.made.arrival;
}

/** Milliseconds: longer than a node waits before it repeats a claim. */
const ASKED_LIFE = 2_500;
/** Claims of one node. */
const MOST_ASKED = 1_000;

interface AskedClaim {
  readonly claim: Claim;
  readonly until: number;
}

/** Claims of other nodes that this gateway has not confirmed yet. */
export class AskedClaims {
  /** By node and address. */
  readonly #asked = new Map<string, Map<string, AskedClaim>>();

  ask(node: string, claims: readonly Claim[], now: number): void {
    const asked = this.#asked.get(node) ?? new Map<string, AskedClaim>();
    for (const claim of claims)
      if (asked.size < MOST_ASKED || asked.has(claim.address))
        asked.set(claim.address, { claim, until: now + ASKED_LIFE });
    this.#asked.set(node, asked);
  }

  /** Those that are in force, by node: they are no longer asked. */
  answers(egress: NodeEgress, now: number): ReadonlyMap<string, readonly Claim[]> {
    const answers = new Map<string, readonly Claim[]>();
    for (const [node, asked] of this.#asked) {
      const done: Claim[] = [];
      for (const [address, { claim, until }] of asked) {
        const isDone = isInForce(node, claim, egress);
        if (isDone) done.push(claim);
        if (isDone || now > until) asked.delete(address);
      }
      if (asked.size === 0) this.#asked.delete(node);
      if (done.length > 0) answers.set(node, done);
    }
    return answers;
  }
}
