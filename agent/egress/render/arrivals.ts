import type { EgressArrival, NodeEgress, TunnelEnd } from '../../../apis/egress/node-egress.ts';
import { BITS, FAMILIES, type Family, WIDTH } from '../../../lib/net/address.ts';
import { packText } from '../../../lib/net/member-set.ts';
import { changedIds } from '../../../lib/sharing/changed-map.ts';
import { shortHash } from '../../../lib/sharing/hash.ts';
import { memo } from '../../../lib/sharing/memo.ts';
import { type Chain, plainChain, plainRule } from '../../render/ruleset.ts';
import {
  type ChainVerdict,
  changeEntries,
  MapChanges,
  mapKeyLength,
  packMac,
  toVerdictMap,
  type VerdictMap,
} from '../../render/verdict-map.ts';
import { type DestinationChain, destinationChain, type RenderedClass, takeChain } from './classes.ts';
import { dropRule, INSIDE, NOT_SERVED } from './counted.ts';
import { claims, EGRESS_NAMES, echoes, inSet } from './tunnel-rules.ts';

const refuse = dropRule('unknown-pod', NOT_SERVED);
const arrivalsMap = (family: Family): string => `egress-arrivals-v${family}`;

export interface RenderedArrivals {
  readonly chains: readonly Chain[];
  readonly maps: readonly VerdictMap[];
}

/** Where the packets of a pod go. */
interface Way {
  /** To the chain that the map leads to. */
  readonly verdict: ChainVerdict;
  /** Null: a take's own chain. */
  readonly made: RenderedClass | null;
}

/**
 * Rules for packets that come by the tunnel: (pod, MAC of its node) leads to a take, by its
 * destination where it has several. All else is dropped. Each value of a sequence costs its
 * changes, and a copy of the keys in memory.
 */
export class ArrivalRenderer {
  readonly #changes = new ArrivalChanges();
  // Pods of one class share the list: its chain is named once.
  readonly #ways: Readonly<Record<Family, (takes: EgressArrival['takes']) => Way>> = {
    4: memo((takes) => toWay(4, takes)),
    6: memo((takes) => toWay(6, takes)),
  };
  /** Chains by name, with the number of pods. */
  readonly #made = new Map<string, { readonly rendered: RenderedClass; pods: number }>();
  readonly #arrive = plainChain(EGRESS_NAMES.arrive, arriveRules());
  readonly #macOf = memo(({ mac }: TunnelEnd) => packMac(mac));
  #maps: Readonly<Record<Family, VerdictMap>> = { 4: noArrivals(4), 6: noArrivals(6) };

  render(egress: Pick<NodeEgress, 'arrivals' | 'peers'>): RenderedArrivals {
    const changes: Record<Family, MapChanges> = {
      4: new MapChanges(mapKeyLength(this.#maps[4])),
      6: new MapChanges(mapKeyLength(this.#maps[6])),
    };
    this.#changes.next(egress, (text, before, now) => {
      const address = packText(text);
      if (address === null) return;
      const family = address.length === WIDTH[4] ? 4 : 6;
      if (before !== null && this.#use(family, before, -1) !== null)
        changes[family].push(address, this.#macOf(before.peer), null);
      const way = now === null ? null : this.#use(family, now, 1);
      if (now !== null && way !== null) changes[family].push(address, this.#macOf(now.peer), way.verdict);
    });
    this.#maps = {
      4: changeEntries(this.#maps[4], changes[4]),
      6: changeEntries(this.#maps[6], changes[6]),
    };
    for (const [name, { pods }] of this.#made) if (pods === 0) this.#made.delete(name);
    const made = [...this.#made].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, { rendered }]) => rendered);
    return {
      chains: [this.#arrive, ...made.map(({ chain }) => chain)],
      maps: [...FAMILIES.map((family) => this.#maps[family]), ...made.flatMap(({ maps }) => maps)],
    };
  }

  /** Counts the pod; null: it has no way. */
  #use(family: Family, { arrival: { takes } }: ServedPod, count: 1 | -1): Way | null {
    if (takes.length === 0) return null;
    const way = this.#ways[family](takes);
    if (way.made !== null) {
      const { chain } = way.verdict;
      const known = this.#made.get(chain) ?? { rendered: way.made, pods: 0 };
      known.pods += count;
      if (known.pods === count) this.#made.set(chain, known);
    }
    return way;
  }
}

function noArrivals(family: Family): VerdictMap {
  return toVerdictMap(
    { name: arrivalsMap(family), key: 'addressMac', family, interval: false, fixed: false },
    [],
  );
}

function arriveRules() {
  return [
    // Echoes and claims between pods' nodes and gateways (agent/egress/health/,
    // agent/egress/pods/).
    plainRule({ kind: 'accept' }, ...echoes('ingress')),
    plainRule({ kind: 'accept' }, ...claims('ingress')),
    // Known connections have a mark and do not come here.
    dropRule('unknown-pod', NOT_SERVED, { match: 'ctConfirmed' }),
    // Pods' nodes send nothing else.
    ...FAMILIES.map((family) =>
      dropRule('unknown-pod', INSIDE, inSet(family, 'daddr', EGRESS_NAMES.inside(family))),
    ),
    ...FAMILIES.map((family) =>
      plainRule({ kind: 'addressMacMap', family, map: arrivalsMap(family) }, { match: 'ctNew' }),
    ),
    refuse,
  ];
}

function toWay(family: Family, takes: EgressArrival['takes']): Way {
  const [first] = takes;
  const everything = (1n << BigInt(BITS[family])) - 1n;
  const isAll = first?.range.first === 0n && first.range.last === everything;
  if (first !== undefined && isAll) return { verdict: gotoChain(takeChain(first.take)), made: null };
  const targets = takes.map(({ range, take }): DestinationChain => ({ range, chain: takeChain(take) }));
  const content = targets.map(({ range, chain }) => [String(range.first), String(range.last), chain]);
  const chain = `egress-arrival-${shortHash(10, family, content)}`;
  const none: Record<Family, DestinationChain[]> = { 4: [], 6: [] };
  return {
    verdict: gotoChain(chain),
    made: destinationChain(chain, { ...none, [family]: targets }, [refuse]),
  };
}

export function gotoChain(chain: string): ChainVerdict {
  return { kind: 'goto', chain };
}

/** A pod that this node serves as a gateway, and the other end of the tunnel that it comes from. */
export interface ServedPod {
  readonly arrival: EgressArrival;
  readonly peer: TunnelEnd;
}

/**
 * Is called for each pod that is different. `before` null: it was not served, or its node had no
 * end of the tunnel; `now` alike.
 */
type OnChange = (address: string, before: ServedPod | null, now: ServedPod | null) => void;

type Served = Pick<NodeEgress, 'arrivals' | 'peers'>;

const NOBODY: Served = { arrivals: new Map(), peers: new Map() };

/**
 * Finds the differences between the values of a sequence. It costs their number; where nodes
 * changed, one pass over the pods.
 */
export class ArrivalChanges {
  #last = NOBODY;

  /** A call for each change: for 100,000 pods, half as long as a list of them. */
  next({ arrivals, peers }: Served, on: OnChange): void {
    const last = this.#last;
    const now = { arrivals, peers };
    this.#last = now;
    if (last.arrivals.size === 0) {
      arrivals.forEach((arrival, address) => {
        const peer = peers.get(arrival.node);
        if (peer !== undefined) on(address, null, { arrival, peer });
      });
      return;
    }
    const nodes = new Set(
      [...changedIds(last.peers, peers)].filter((node) => !isSameEnd(last.peers.get(node), peers.get(node))),
    );
    const changed = new Set(changedIds(last.arrivals, arrivals));
    if (nodes.size > 0) for (const [address, { node }] of arrivals) if (nodes.has(node)) changed.add(address);
    for (const address of changed) on(address, servedPod(last, address), servedPod(now, address));
  }
}

function servedPod({ arrivals, peers }: Served, address: string): ServedPod | null {
  const arrival = arrivals.get(address);
  const peer = arrival === undefined ? undefined : peers.get(arrival.node);
  return arrival === undefined || peer === undefined ? null : { arrival, peer };
}

/** As far as pods are concerned. */
function isSameEnd(a: TunnelEnd | undefined, b: TunnelEnd | undefined): boolean {
  return a?.mac === b?.mac && a?.networks?.join() === b?.networks?.join();
}
