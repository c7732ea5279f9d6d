import type { EgressConfig } from '../../../apis/egress/config.ts';
import type { EgressGateway, EgressPolicy } from '../../../apis/egress/objects.ts';
import type { ClusterObjects, Node, Service } from '../../../apis/objects.ts';
import type { CrossProblem } from '../../../apis/validate/problem.ts';
import { FAMILIES, type Family, parseCidr } from '../../../lib/net/address.ts';
import { type Interval, toInterval, union } from '../../../lib/net/interval.ts';
import {
  AddressUnion,
  hasInterval,
  type Overlaps,
  type OwnedRange,
  RangeIndex,
} from '../../../lib/net/range-index.ts';
import { sameItems } from '../../../lib/sharing/lists.ts';
import { memo } from '../../../lib/sharing/memo.ts';
import type { AddressedPod } from '../../extension/extension.ts';
import { credible } from '../inside.ts';
import { gatewayProblems, nodelessProblems, poolsOf } from './gateways.ts';
import {
  insideRanges,
  networkRanges,
  nodeRanges,
  podRanges,
  reservedRanges,
  serviceRanges,
} from './object-ranges.ts';
import { policyProblems } from './policies.ts';

/** The objects that the checks of one object read. */
export interface CheckObjects
  extends Pick<
    ClusterObjects,
    'nodes' | 'services' | 'namespaces' | 'egressGateways' | 'egressPolicies' | 'insideNetworks'
  > {
  /** All, or at least those with an address outside of the networks of pods. */
  readonly pods: readonly AddressedPod[];
}

/** Beyond so many addresses a destination is taken for one that pods alone do not fill. */
const MOST_SINGLE = 4096n;

/**
 * egressProblems of one object among many. What is derived from the others is kept as long as
 * their lists stay the same objects; pods, which always change, are read in one pass.
 */
export class IncrementalChecks {
  readonly #config: EgressConfig;
  readonly #rangesOfNode = memo(nodeRanges);
  readonly #rangesOfPod = memo(podRanges);
  readonly #rangesOfService = memo(serviceRanges);
  readonly #nodes = memo((nodes: readonly Node[]) => new RangeIndex(nodes.flatMap(this.#rangesOfNode)));
  readonly #services = memo(
    (services: readonly Service[]) => new RangeIndex(services.flatMap(this.#rangesOfService)),
  );
  #insideParts: readonly (readonly object[])[] = [];
  #inside = new AddressUnion([]);

  constructor(config: EgressConfig) {
    this.#config = config;
  }

  /** @param gateway one of the objects */
  ofGateway(objects: CheckObjects, gateway: EgressGateway): CrossProblem<EgressGateway>[] {
    const { egressGateways: gateways } = objects;
    const pools = poolsOf(gateways);
    const own = pools.filter((pool) => pool.gateway === gateway);
    const parts = [
      this.#nodes(objects.nodes),
      new RangeIndex(networkRanges(objects.insideNetworks, this.#config)),
      this.#services(objects.services),
      new RangeIndex(this.#podsIn(objects.pods, unionOf(own))),
    ];
    return [
      ...gatewayProblems(gateways, pools, overlapsOf(parts), [gateway]),
      ...nodelessProblems([gateway], objects.nodes),
    ];
  }

  /** @param policy one of the objects, of nodewall.io */
  ofPolicy(objects: CheckObjects, policy: EgressPolicy): CrossProblem<EgressPolicy>[] {
    const { egressGateways: gateways, egressPolicies: policies, namespaces } = objects;
    const pools = poolsOf(gateways);
    const inside = this.#withPods(this.#insideOf(objects), objects, policy.spec.to ?? []);
    const world = { policies, gateways, namespaces, pools, inside, invalid: NONE };
    return policyProblems(world, [policy]);
  }

  /** The addresses of pods that are in the intervals. */
  #podsIn(pods: readonly AddressedPod[], within: Intervals): OwnedRange[] {
    if (FAMILIES.every((family) => within[family].length === 0)) return [];
    return pods.flatMap((pod) =>
      this.#rangesOfPod(pod).filter(({ family, range }) => hasInterval(within[family], range.first)),
    );
  }

  /** Without the pods. */
  #insideOf({ nodes, insideNetworks, egressGateways }: CheckObjects): AddressUnion {
    const parts = [nodes, insideNetworks, egressGateways];
    if (sameItems(parts, this.#insideParts)) return this.#inside;
    this.#insideParts = parts;
    this.#inside = new AddressUnion([
      ...insideRanges({ nodes, insideNetworks, pods: [] }, this.#config),
      ...networkRanges(insideNetworks, this.#config),
      ...poolsOf(egressGateways),
      ...reservedRanges(this.#config),
    ]);
    return this.#inside;
  }

  /** With the addresses of pods, as far as they are destinations. */
  #withPods(
    inside: AddressUnion,
    { pods, insideNetworks }: CheckObjects,
    to: readonly string[],
  ): Pick<AddressUnion, 'covers'> {
    const wanted = unionOf(
      to.flatMap((text) => {
        const cidr = parseCidr(text)?.cidr;
        return cidr === undefined ? [] : { family: cidr.family, range: toInterval(cidr) };
      }),
    );
    const rest = (family: Family): Interval[] =>
      inside.rest(family, wanted[family]).filter(({ first, last }) => last - first < MOST_SINGLE);
    const isCredible = credible(insideNetworks, this.#config);
    const found = this.#podsIn(pods, { 4: rest(4), 6: rest(6) }).filter(isCredible);
    return found.length === 0 ? inside : inside.with(found);
  }
}

type Intervals = Readonly<Record<Family, readonly Interval[]>>;

function unionOf(ranges: readonly Pick<OwnedRange, 'family' | 'range'>[]): Intervals {
  const of = (family: Family): Interval[] =>
    union(ranges.filter((one) => one.family === family).map(({ range }) => range));
  return { 4: of(4), 6: of(6) };
}

function overlapsOf(parts: readonly Overlaps[]): Overlaps {
  return {
    overlapping(family, range) {
      for (const part of parts) {
        const found = part.overlapping(family, range);
        if (found !== undefined) return found;
      }
      return undefined;
    },
  };
}

const NONE: ReadonlySet<string> = new Set();
