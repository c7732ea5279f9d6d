import type { EgressArrival, NodeEgress, TunnelEnd } from '../../../apis/egress/node-egress.ts';
import { BITS, FAMILIES, type Family, WIDTH } from '../../../lib/net/address.ts';
import { packText } from '../../../lib/net/member-set.ts';
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
import { ArrivalChanges, type ServedPod } from './arrival-changes.ts';
import { type DestinationChain, destinationChain, type RenderedClass } from './classes.ts';
import { dropRule, INSIDE, NOT_SERVED } from './drops.ts';
import { takeChain } from './outcomes.ts';
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
