import type { NodeEgress, TunnelEnd } from '../../../apis/egress/node-egress.ts';
import { BITS, type Family, parseAddress, parseCidr } from '../../../lib/net/address.ts';
import { type Interval, toInterval, union } from '../../../lib/net/interval.ts';
import { firstAt } from '../../../lib/sharing/first-at.ts';
import { memo } from '../../../lib/sharing/memo.ts';
import { ArrivalChanges, type ServedPod } from './arrival-changes.ts';

/** The way back to pods that this node serves. */
export interface AnswerRoute {
  readonly family: Family;
  /** CIDR. */
  readonly destination: string;
  /** The pods' node. */
  readonly node: string;
}

/**
 * Answers find their pods by the pod networks of the pods' nodes, and where a pod has an address
 * outside of them by a route of its own. Each value of a sequence costs its changes.
 */
export class AnswerRoutes {
  readonly #changes = new ArrivalChanges();
  /** By node and destination, with the number of pods. */
  readonly #used = new Map<string, { readonly route: AnswerRoute; pods: number }>();
  readonly #networksOf = memo(parseNetworks);
  #routes: readonly AnswerRoute[] = [];

  /** In no order; the same list if nothing changed. */
  next(egress: Pick<NodeEgress, 'arrivals' | 'peers'>): readonly AnswerRoute[] {
    let isChanged = false;
    this.#changes.next(egress, (address, before, now) => {
      if (before !== null && this.#use(address, before, -1)) isChanged = true;
      if (now !== null && this.#use(address, now, 1)) isChanged = true;
    });
    if (!isChanged) return this.#routes;
    for (const [key, { pods }] of this.#used) if (pods === 0) this.#used.delete(key);
    this.#routes = [...this.#used.values()].map(({ route }) => route);
    return this.#routes;
  }

  /** Returns whether a route may have come or gone. */
  #use(text: string, { peer }: ServedPod, count: 1 | -1): boolean {
    const route = answerRoute(text, peer, this.#networksOf);
    if (route === null) return false;
    const key = `${route.node} ${route.destination}`;
    const known = this.#used.get(key) ?? { route, pods: 0 };
    const before = known.pods;
    known.pods += count;
    if (before === 0) this.#used.set(key, known);
    return before === 0 || known.pods === 0;
  }
}

/** Null: the text is no address. */
export function answerRoute(
  text: string,
  peer: TunnelEnd,
  networksOf: typeof parseNetworks,
): AnswerRoute | null {
  const address = parseAddress(text);
  if (address === null) return null;
  const { family, value } = address;
  const network = networksOf(peer).find(
    (one) => one.family === family && one.first <= value && value <= one.last,
  );
  return { family, node: peer.node, destination: network?.text ?? `${text}/${BITS[family]}` };
}

/** A pod network of a node. */
export interface PodNetwork extends Interval {
  readonly family: Family;
  /** The CIDR. */
  readonly text: string;
}

/** Pod networks of a node. */
export function parseNetworks({ networks = [] }: TunnelEnd): readonly PodNetwork[] {
  return networks.flatMap((text) => {
    const cidr = parseCidr(text)?.cidr;
    return cidr === undefined ? [] : { ...toInterval(cidr), family: cidr.family, text };
  });
}

/** Ways back of before, as NodeEgress.answers has them, but to what `current` has a way to. */
export function formerRoutes(
  answers: NodeEgress['answers'],
  current: readonly AnswerRoute[],
): readonly AnswerRoute[] {
  if (answers === undefined) return [];
  const destinations = new Set(current.map(({ destination }) => destination));
  const networksOf = (family: Family): readonly Interval[] =>
    union(
      current.flatMap((route) => {
        if (route.family !== family || route.destination.endsWith(`/${BITS[family]}`)) return [];
        const cidr = parseCidr(route.destination)?.cidr;
        return cidr === undefined ? [] : toInterval(cidr);
      }),
    );
  const networks: Readonly<Record<Family, readonly Interval[]>> = { 4: networksOf(4), 6: networksOf(6) };
  return [...answers].flatMap(([destination, { node }]) => {
    const cidr = parseCidr(destination)?.cidr;
    if (cidr === undefined || destinations.has(destination)) return [];
    const { family } = cidr;
    const { first, last } = toInterval(cidr);
    const own = networks[family];
    const there = own[firstAt(0, own.length, (i) => (own[i]?.last ?? last) >= last)];
    return there !== undefined && there.first <= first ? [] : { family, destination, node };
  });
}
