import {
  BY_ADDRESS,
  type EgressClass,
  type EgressOutcome,
  type NodeEgress,
} from '../../../apis/egress/node-egress.ts';
import { BITS, type Family } from '../../../lib/net/address.ts';
import type { Claim } from './claim.ts';

/** Milliseconds. */
const TIMES = {
  /** A gateway forgets a claim that is not repeated. */
  refresh: 10_000,
  /** The waits between sending and sending again. */
  firstRetry: 25,
  longestRetry: 1_000,
  /** Where the controller says the same: gateways that do not answer are not waited for longer. */
  patience: 5_000,
};

/** An address that a pod of this node has by CNI. */
interface Held {
  readonly pod: string;
  readonly since: number;
  /**
   * It was there when the agent started, or the controller has agreed: from then on that decides.
   */
  isSettled: boolean;
  /** The class by which it is steered; undefined: it is held. */
  steered: string | null | undefined;
  /** By gateway. */
  readonly sent: Map<string, Sent>;
  /** Gateways that said something else after the address was settled. */
  readonly disputing: Set<string>;
}

/** An address that was a pod's of this node. */
interface Withdrawn {
  readonly claim: Claim;
  /** By gateway: those that have steered it. */
  readonly sent: Map<string, Sent>;
}

interface Sent {
  readonly class: string | null;
  due: number;
  pause: number;
  isInForce: boolean;
}

export interface ClaimedSources {
  /** As NodeEgress.sources. */
  readonly sources: ReadonlyMap<string, string | null>;
  /** By address: the pod by CNI, whose class it has in `sources`. */
  readonly pods: ReadonlyMap<string, string>;
  /** Addresses of pods that have a class, and whose gateways are not ready for them. */
  readonly waiting: ReadonlySet<string>;
  /** By gateway: what is to be sent now. */
  readonly due: ReadonlyMap<string, readonly Claim[]>;
  /** Milliseconds from now until something may be due; null: nothing waits. */
  readonly next: number | null;
}

/**
 * Puts what CNI says of this node's addresses over what the controller says. A pod is steered once
 * each gateway of its class has said that it lets the address in: until then a gateway may take it
 * for the pod that had the address before.
 */
export class PodClaims {
  readonly #held = new Map<string, Held>();
  /** Addresses that CNI removed, with their pods, until the controller knows. */
  readonly #removed = new Map<string, string>();
  /**
   * Addresses that may have connections of a pod that had them before, with how often they ended.
   */
  readonly #unclean = new Map<string, number>();
  /** Claims that gateways must hear until they and the controller agree; by address and pod. */
  readonly #withdrawn = new Map<string, Withdrawn>();

  /**
   * @param pods by address, by CNI
   * @param isFirst what is there at the start has been there for a while
   * @returns addresses that are no longer the pod's that they were: end their connections, then
   *   call `cleaned`
   */
  hasPods(
    pods: ReadonlyMap<string, string>,
    { egress, now, isFirst }: { egress: NodeEgress | null; now: number; isFirst: boolean },
  ): string[] {
    const ended: string[] = [];
    for (const [address, { pod, steered }] of this.#held) {
      if (pods.get(address) === pod) continue;
      this.#held.delete(address);
      this.#removed.set(address, pod);
      ended.push(address);
      const gateways = steered ? gatewaysOf(egress, steered) : [];
      const sent = new Map([...gateways].map((gateway) => [gateway, unsent(null)]));
      if (sent.size > 0)
        this.#withdrawn.set(`${address} ${pod}`, { claim: { address, pod, class: null }, sent });
    }
    for (const [address, pod] of pods) {
      if (this.#held.has(address)) continue;
      // The pod that the controller has there may be another one.
      if (!isFirst && !this.#removed.has(address) && egress?.sources.has(address) === true)
        ended.push(address);
      this.#removed.delete(address);
      const own = { isSettled: isFirst, steered: undefined, sent: new Map(), disputing: new Set<string>() };
      this.#held.set(address, { pod, since: now, ...own });
    }
    for (const address of ended) this.#unclean.set(address, (this.#unclean.get(address) ?? 0) + 1);
    return ended;
  }

  /** Whether CNI says whose the address is. */
  has(address: string): boolean {
    return this.#held.has(address);
  }

  cleaned(addresses: Iterable<string>): void {
    for (const address of addresses) {
      const left = (this.#unclean.get(address) ?? 0) - 1;
      if (left > 0) this.#unclean.set(address, left);
      else this.#unclean.delete(address);
    }
  }

  /** A gateway says what it has; if this node has not said so, it says again what is true. */
  isInForce(gateway: string, { address, pod, class: id }: Claim, now: number): void {
    const held = this.#held.get(address);
    const withdrawn = this.#withdrawn.get(`${address} ${pod}`);
    const sent = (held?.pod === pod && id !== null ? held : withdrawn)?.sent.get(gateway);
    if (sent !== undefined && sent.class === id) {
      if (!sent.isInForce) sent.due = now + TIMES.refresh;
      sent.isInForce = true;
    } else if (held?.isSettled && (id !== null || withdrawn === undefined)) {
      held.disputing.add(gateway);
      held.sent.delete(gateway);
    }
  }

  /**
   * @param lost nodes that do not answer through the tunnel: nothing is sent there, nor waited for
   */
  over(egress: NodeEgress, now: number, lost: readonly string[] = []): ClaimedSources {
    const sources = new Map(egress.sources);
    const pods = new Map<string, string>();
    const waiting = new Set<string>();
    const due = new Map<string, Claim[]>();
    let next = this.#withdraw(egress, now, due);
    // A pod that the controller still has: its address is nobody's.
    for (const [address, pod] of this.#removed)
      if (egress.pods.has(pod)) sources.delete(address);
      else this.#removed.delete(address);
    for (const [address, held] of this.#held) {
      const id = egress.pods.get(held.pod);
      if (id === BY_ADDRESS) continue;
      sources.delete(address);
      // A pod that the controller has not named yet, or not any more.
      if (id === undefined) continue;
      const isAgreed = egress.sources.has(address) && egress.sources.get(address) === id;
      const wait = this.#advance(address, held, { id, isAgreed, egress, now, lost, due });
      if (wait !== null) next = earlier(next, wait);
      const { steered } = held;
      const isThere = steered === null || (steered !== undefined && egress.classes.has(steered));
      if (!isThere) {
        waiting.add(address);
        continue;
      }
      sources.set(address, steered ?? null);
      pods.set(address, held.pod);
    }
    return { sources, pods, waiting, due, next };
  }

  /** Adds what is due; returns the milliseconds until something may be, or null. */
  #advance(address: string, held: Held, { id, isAgreed, egress, now, lost, due }: Turn): number | null {
    const gateways = id === null ? new Set<string>() : gatewaysOf(egress, id);
    const claim = { address, pod: held.pod, class: id };
    let wait: number | null = null;
    const tell = (gateway: string): Sent => {
      const sent = sentTo(held, gateway, id ?? '');
      wait = earlier(wait, advance(sent, { gateway, claim, now, due }));
      return sent;
    };
    if (isAgreed && (held.isSettled || held.steered === id)) {
      held.steered = id;
      held.isSettled = true;
      for (const gateway of held.disputing)
        if (!gateways.has(gateway) || held.sent.get(gateway)?.isInForce) held.disputing.delete(gateway);
        else tell(gateway);
      return wait;
    }
    const isClean = !this.#unclean.has(address);
    let isReady = isClean;
    for (const gateway of gateways) if (!tell(gateway).isInForce && !lost.includes(gateway)) isReady = false;
    const isPatienceOver = isAgreed && isClean && now >= held.since + TIMES.patience;
    if (isReady || isPatienceOver) held.steered = id;
    // Another gateway, or one that answers again, may still have an earlier pod.
    else if (held.steered === id && !held.isSettled) held.steered = undefined;
    return wait;
  }

  /** Adds what is due of removed addresses; returns the milliseconds until something may be. */
  #withdraw(egress: NodeEgress, now: number, due: Map<string, Claim[]>): number | null {
    let wait: number | null = null;
    for (const [key, { claim, sent: all }] of this.#withdrawn) {
      const next = egress.pods.get(this.#held.get(claim.address)?.pod ?? '');
      const others = next == null ? new Set<string>() : gatewaysOf(egress, next);
      for (const [gateway, sent] of all) {
        const isFirst = sent.due === Number.NEGATIVE_INFINITY;
        // The claim for the pod that has the address now says it, too.
        if (isFirst || (egress.pods.has(claim.pod) && !others.has(gateway)))
          wait = earlier(wait, advance(sent, { gateway, claim, now, due }));
        else all.delete(gateway);
      }
      if (all.size === 0) this.#withdrawn.delete(key);
    }
    return wait;
  }
}

interface Telling {
  readonly gateway: string;
  readonly claim: Claim;
  readonly now: number;
  readonly due: Map<string, Claim[]>;
}

/** Adds the claim if it is due; returns the milliseconds until it is again. */
function advance(sent: Sent, { gateway, claim, now, due }: Telling): number {
  if (now >= sent.due) {
    add(due, gateway, claim);
    sent.due = now + (sent.isInForce ? TIMES.refresh : sent.pause);
    sent.pause = Math.min(2 * sent.pause, TIMES.longestRetry);
  }
  return sent.due - now;
}

function earlier(a: number | null, b: number): number {
  return Math.min(a ?? b, b);
}

interface Turn {
  readonly id: string | null;
  /** The controller says the same of the address. */
  readonly isAgreed: boolean;
  readonly egress: NodeEgress;
  readonly now: number;
  readonly lost: readonly string[];
  readonly due: Map<string, Claim[]>;
}

function sentTo(held: Held, gateway: string, id: string): Sent {
  const before = held.sent.get(gateway);
  if (before?.class === id) return before;
  const sent = unsent(id);
  held.sent.set(gateway, sent);
  return sent;
}

function unsent(id: string | null): Sent {
  return { class: id, due: Number.NEGATIVE_INFINITY, pause: TIMES.firstRetry, isInForce: false };
}

/** The other nodes that the class's connections may leave by. */
function gatewaysOf(egress: NodeEgress | null, id: string): ReadonlySet<string> {
  const found = new Set<string>();
  const one = egress?.classes.get(id);
  for (const outcome of one === undefined ? [] : outcomesOf(one)) {
    const { action }: Partial<EgressOutcome> = egress?.outcomes.get(outcome) ?? {};
    for (const number of action?.kind === 'slots' ? action.slots : []) {
      const slot = egress?.slots.get(number);
      if (slot !== undefined && slot.take === 0) found.add(slot.node);
    }
  }
  return found;
}

function outcomesOf({ ipv4, ipv6 }: EgressClass): Set<string> {
  return new Set([...ipv4, ...ipv6].map(({ outcome }) => outcome));
}

function add(due: Map<string, Claim[]>, gateway: string, claim: Claim): void {
  const claims = due.get(gateway) ?? [];
  claims.push(claim);
  due.set(gateway, claims);
}

/** Id of a class and of its outcome; ids of others are hashes. */
const HELD = 'held';

/**
 * Where unknown pods pass, pods that wait for their gateways must not: they get a class that drops.
 * Elsewhere they are unknown, which costs no change of chains.
 */
export function withHeld(egress: NodeEgress, waiting: ReadonlySet<string>): NodeEgress {
  if (waiting.size === 0 || egress.unknownPods === 'Hold') return egress;
  const sources = new Map(egress.sources);
  for (const address of waiting) sources.set(address, HELD);
  const action = { kind: 'drop', reason: 'unknown-pod' } as const;
  return {
    ...egress,
    sources,
    classes: new Map([...egress.classes, [HELD, { id: HELD, ipv4: all(4), ipv6: all(6) }]]),
    outcomes: new Map([...egress.outcomes, [HELD, { id: HELD, policy: null, audited: [], action }]]),
  };
}

function all(family: Family) {
  return [{ range: { first: 0n, last: (1n << BigInt(BITS[family])) - 1n }, outcome: HELD }];
}
