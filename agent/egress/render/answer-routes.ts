import type { NodeEgress, TunnelEnd } from '../../../apis/egress/node-egress.ts';
import { BITS, type Family, parseAddress, parseCidr } from '../../../lib/net/address.ts';
import { type Interval, toInterval } from '../../../lib/net/interval.ts';
import { firstAt, sameItems } from '../../../lib/sharing/lists.ts';
import { memo } from '../../../lib/sharing/memo.ts';
import { ArrivalChanges, type ServedPod } from './arrivals.ts';

/** The way back to pods that this node serves. */
export interface AnswerRoute {
  readonly family: Family;
  /** CIDR. */
  readonly destination: string;
  /** The pods' node; null: the pod runs on this node, and no wider route leads to it. */
  readonly node: string | null;
}

type Answering = Pick<NodeEgress, 'arrivals' | 'peers' | 'answers' | 'sources' | 'subnets'>;

/**
 * Answers find their pods by the pod networks of the pods' nodes, and where a pod runs elsewhere
 * than its address says by a route of its own: on another node, or on this one. Each value of a
 * sequence costs its changes.
 */
export class AnswerRoutes {
  #changes = new ArrivalChanges();
  /** By node and destination, with the number of pods. */
  readonly #used = new Map<string, { readonly route: AnswerRoute; pods: number }>();
  #networksOf = memo(parseNetworks);
  #current: readonly AnswerRoute[] = [];
  #subnets: NodeEgress['subnets'] = [];
  /** The current ones with the former ones, and what they were made of. */
  #tunnelled = { parts: [] as readonly unknown[], index: new RouteIndex([]) };
  #last = { parts: [] as readonly unknown[], own: [] as readonly AnswerRoute[] };
  #routes: readonly AnswerRoute[] = [];

  /** In no order; the same list if nothing changed. */
  next(egress: Answering): readonly AnswerRoute[] {
    const { answers, sources, subnets } = egress;
    const isReset = this.#setSubnets(subnets);
    if (this.#follow(egress) || isReset) this.#current = [...this.#used.values()].map(({ route }) => route);
    const parts = [this.#current, answers];
    const isSame = sameItems(this.#tunnelled.parts, parts);
    if (!isSame) {
      const former = formerRoutes(answers, this.#current).filter((one) => !isAmong(subnets, one));
      this.#tunnelled = { parts, index: new RouteIndex([...this.#current, ...former]) };
    }
    const { index } = this.#tunnelled;
    if (sameItems(this.#last.parts, [index, sources])) return this.#routes;
    const own = ownRoutes(sources, index);
    const isSameOwn = sameItems(own.map(toDestination), this.#last.own.map(toDestination));
    if (!isSame || !isSameOwn) {
      const here = new Set(own.map(toDestination));
      this.#routes = [...index.routes.filter(({ destination }) => !here.has(destination)), ...own];
    }
    this.#last = { parts: [index, sources], own };
    return this.#routes;
  }

  /** Returns whether routes changed. */
  #follow(egress: Answering): boolean {
    let isChanged = false;
    this.#changes.next(egress, (address, before, now) => {
      if (before !== null && this.#use(address, before, -1)) isChanged = true;
      if (now !== null && this.#use(address, now, 1)) isChanged = true;
    });
    if (isChanged) for (const [key, { pods }] of this.#used) if (pods === 0) this.#used.delete(key);
    return isChanged;
  }

  /** Sources of this node that no pod of the objects has: any address among them may be here. */
  #setSubnets(subnets: NodeEgress['subnets']): boolean {
    if (subnets === this.#subnets) return false;
    this.#subnets = subnets;
    this.#networksOf = memo((end) => parseNetworks(end).filter((one) => !overlaps(subnets, one)));
    this.#changes = new ArrivalChanges();
    this.#used.clear();
    return true;
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

function toDestination({ destination }: AnswerRoute): string {
  return destination;
}

/** The node's own pods that the routes would lead away from it. */
function ownRoutes(sources: NodeEgress['sources'], index: RouteIndex): AnswerRoute[] {
  if (index.routes.length === 0) return [];
  return [...sources.keys()].flatMap((text) => {
    const address = parseAddress(text);
    if (address === null) return [];
    const { family, value } = address;
    const destination = `${text}/${BITS[family]}`;
    const isLedAway = index.has(destination) || index.networkWith(family, value, value) !== undefined;
    return isLedAway ? { family, destination, node: null } : [];
  });
}

/** Null: the text is no address. */
export function answerRoute(
  text: string,
  peer: TunnelEnd,
  networksOf: typeof parseNetworks,
): (AnswerRoute & { readonly node: string }) | null {
  const address = parseAddress(text);
  if (address === null) return null;
  const { family, value } = address;
  const network = networksOf(peer).find(
    (one) => one.family === family && one.first <= value && value <= one.last,
  );
  return { family, node: peer.node, destination: network?.text ?? `${text}/${BITS[family]}` };
}

/** A pod network of a node. */
interface PodNetwork extends Interval {
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

/**
 * Ways back of before, as NodeEgress.answers has them, but to what `current` has a way to: a single
 * pod stays where a network of another node has its address.
 */
export function formerRoutes(
  answers: NodeEgress['answers'],
  current: readonly AnswerRoute[],
): readonly AnswerRoute[] {
  if (answers === undefined) return [];
  const index = new RouteIndex(current);
  return [...answers].flatMap(([destination, { node }]) => {
    const cidr = parseCidr(destination)?.cidr;
    if (cidr === undefined || index.has(destination)) return [];
    const { family, length } = cidr;
    const { first, last } = toInterval(cidr);
    const there = index.networkWith(family, first, last);
    const isSame = there !== undefined && (length < BITS[family] || there.node === node);
    return isSame ? [] : { family, destination, node };
  });
}

/** The other ends of the tunnel, with those that only connections of before need. */
export function withFormer(peers: NodeEgress['peers'], answers: NodeEgress['answers']): NodeEgress['peers'] {
  if (answers === undefined) return peers;
  return new Map([...[...answers.values()].map((end) => [end.node, end] as const), ...peers]);
}

interface NetworkRoute extends Interval {
  readonly node: string | null;
}

/** Finds routes by what they lead to. */
class RouteIndex {
  readonly routes: readonly AnswerRoute[];
  readonly #destinations: ReadonlySet<string>;
  /** Sorted; each ends behind the one before, so that those within another are left out. */
  readonly #networks: Readonly<Record<Family, readonly NetworkRoute[]>>;

  constructor(routes: readonly AnswerRoute[]) {
    this.routes = routes;
    this.#destinations = new Set(routes.map(toDestination));
    this.#networks = { 4: networkRoutes(routes, 4), 6: networkRoutes(routes, 6) };
  }

  has(destination: string): boolean {
    return this.#destinations.has(destination);
  }

  /** A network that has all of the range. */
  networkWith(family: Family, first: bigint, last: bigint): NetworkRoute | undefined {
    const all = this.#networks[family];
    const there = all[firstAt(0, all.length, (i) => (all[i]?.last ?? last) >= last)];
    return there !== undefined && there.first <= first ? there : undefined;
  }
}

function networkRoutes(routes: readonly AnswerRoute[], of: Family): NetworkRoute[] {
  const all = routes.flatMap(({ family, destination, node }) => {
    if (family !== of || destination.endsWith(`/${BITS[of]}`)) return [];
    const cidr = parseCidr(destination)?.cidr;
    return cidr === undefined ? [] : { ...toInterval(cidr), node };
  });
  all.sort((a, b) => (a.first !== b.first ? order(a.first, b.first) : order(b.last, a.last)));
  let end = -1n;
  return all.filter(({ last }) => {
    const isWithin = last <= end;
    end = isWithin ? end : last;
    return !isWithin;
  });
}

function order(a: bigint, b: bigint): number {
  return a < b ? -1 : 1;
}

function overlaps(subnets: NodeEgress['subnets'], { family, first, last }: PodNetwork): boolean {
  return subnets.some((one) => one.family === family && one.range.first <= last && first <= one.range.last);
}

/** Whether the route is that of a network which overlaps one of these ranges. */
function isAmong(subnets: NodeEgress['subnets'], { family, destination }: AnswerRoute): boolean {
  const cidr = parseCidr(destination)?.cidr;
  if (cidr === undefined || cidr.length === BITS[family]) return false;
  return overlaps(subnets, { ...toInterval(cidr), family, text: destination });
}
