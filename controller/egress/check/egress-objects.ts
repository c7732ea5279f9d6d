import { isDeepStrictEqual } from 'node:util';
import type { EgressConfig } from '../../../apis/egress/config.ts';
import type { EgressGateway, EgressPolicy, EgressPolicySpec } from '../../../apis/egress/objects.ts';
import type { ClusterObjects, Pod } from '../../../apis/objects.ts';
import { EGRESS_KINDS } from '../../../apis/validate/egress/kinds.ts';
import { identityOf } from '../../../apis/validate/metadata.ts';
import type { CrossProblem } from '../../../apis/validate/problem.ts';
import { type Family, parseAddress } from '../../../lib/net/address.ts';
import type { Interval } from '../../../lib/net/interval.ts';
import { AddressUnion, hasInterval, type OwnedRange, RangeIndex } from '../../../lib/net/range-index.ts';
import { type ListChange, listChange, sameItems } from '../../../lib/sharing/lists.ts';
import type { AddressedPod, ObjectExtension, PodFilter } from '../../extension/extension.ts';
import { intervalsOf } from '../segments.ts';
import { beyondLimits, EgressAdmission } from './egress-admission.ts';
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

/** Egress gateways and policies among the other objects. */
export const EGRESS_OBJECTS: ObjectExtension = {
  kinds: EGRESS_KINDS,
  isKnown: ({ spec }) => Object.keys(spec).every((field) => Object.hasOwn(POLICY_FIELDS, field)),
  problems: egressProblems,
  isSameForProblems: isSameForChecks,
  beyondLimits,
  admission: () => new EgressAdmission(),
  outsidePods: () => new OutsidePods(),
};

const POLICY_FIELDS: Readonly<Record<keyof EgressPolicySpec, true>> = {
  stage: true,
  appliedTo: true,
  gateway: true,
  to: true,
  except: true,
  action: true,
  address: true,
  whenUnavailable: true,
  priority: true,
  mode: true,
  established: true,
};

/**
 * The problems of egress gateways and policies that other objects cause. None of them takes an
 * object out of force: a policy without its gateway or address fails closed, and connections would
 * leave with a wrong address without it. In O(n log n).
 *
 * @param invalid identities of gateways that exist and were rejected
 */
export function egressProblems(
  objects: ClusterObjects,
  config: EgressConfig,
  invalid: ReadonlySet<string>,
): CrossProblem<EgressGateway | EgressPolicy>[] {
  const { egressGateways: gateways, egressPolicies: policies, namespaces } = objects;
  if (gateways.length === 0 && policies.length === 0) return [];
  const pools = poolsOf(gateways);
  const others = inCluster(objects, config);
  const inside = new AddressUnion([
    ...insideRanges(objects, config),
    ...pools,
    ...networkRanges(objects.insideNetworks, config),
    ...reservedRanges(config),
  ]);
  const ofServices = objects.services.flatMap(serviceRanges);
  const owned = new RangeIndex([...others, ...ofServices]);
  return [
    ...gatewayProblems(gateways, pools, owned),
    ...nodelessProblems(gateways, objects.nodes),
    ...policyProblems({ policies, gateways, namespaces, pools, inside, invalid }),
  ];
}

/** The addresses of Nodes and pods, and the networks of pods and Services. */
function inCluster({ nodes, pods, insideNetworks }: ClusterObjects, config: EgressConfig): OwnedRange[] {
  return [...nodes.flatMap(nodeRanges), ...pods.flatMap(podRanges), ...networkRanges(insideNetworks, config)];
}

/** The lists that egressProblems reads and that have statuses. */
interface StatusLists {
  readonly egressGateways: readonly EgressGateway[];
  readonly egressPolicies: readonly EgressPolicy[];
}

/**
 * Whether two states differ at most in what egressProblems does not read. The statuses of thousands
 * of policies are written one after another, and must not cost a pass over all pods each.
 */
export function isSameForChecks(before: StatusLists, now: StatusLists): boolean {
  const named = new Set(now.egressPolicies.flatMap(({ spec }) => Object.values(spec.address.fixed)));
  return (
    isSame(before.egressGateways, now.egressGateways, ({ spec }) => spec) &&
    isSame(before.egressPolicies, now.egressPolicies, ({ spec, status }) => {
      // An address in a status matters where another policy names it.
      return [spec, status?.addresses.filter((address) => named.has(address)) ?? []];
    })
  );
}

function isSame<T extends EgressGateway | EgressPolicy>(
  before: readonly T[],
  now: readonly T[],
  readOf: (object: T) => unknown,
): boolean {
  const { removed, added } = listChange(before, now);
  if (removed.length !== added.length) return false;
  const last = new Map(removed.map((object) => [identityOf(object), object]));
  return added.every((object) => {
    const was = last.get(identityOf(object));
    return was !== undefined && isDeepStrictEqual(readOf(was), readOf(object));
  });
}

type Parts = Pick<ClusterObjects, 'nodes' | 'pods' | 'insideNetworks'>;

/**
 * The pods with an address that no network of pods has: of 100,000 pods none, unless the network
 * has no such networks. Follows the states of the objects, at the cost of what changed.
 */
class OutsidePods implements PodFilter {
  #networks: readonly string[] = [];
  #within: Readonly<Record<Family, readonly Interval[]>> = { 4: [], 6: [] };
  #parts: readonly (readonly object[])[] = [];
  #pods: readonly Pod[] = [];
  readonly #found = new Map<Pod, AddressedPod>();

  /** The changes since the call before. */
  advance({ nodes, pods, insideNetworks }: Parts): ListChange<AddressedPod> {
    const gone: AddressedPod[] = [];
    const come: AddressedPod[] = [];
    const parts = [nodes, insideNetworks];
    if (!sameItems(parts, this.#parts)) {
      this.#parts = parts;
      const networks = [
        ...nodes.flatMap(({ podCIDRs = [] }) => podCIDRs),
        ...insideNetworks.flatMap(({ cidrs }) => cidrs),
      ];
      if (!sameItems(networks, this.#networks)) gone.push(...this.#restart(networks));
    }
    const { removed, added } = listChange(this.#pods, pods);
    this.#pods = pods;
    for (const pod of removed) {
      const known = this.#found.get(pod);
      if (known !== undefined) gone.push(known);
      this.#found.delete(pod);
    }
    for (const pod of added) {
      if (!this.#isOutside(pod)) continue;
      const { kind, namespace, name, addresses } = pod;
      const short = { kind, namespace, name, addresses };
      this.#found.set(pod, short);
      come.push(short);
    }
    return { removed: gone, added: come };
  }

  /** All pods are looked at again. Returns those that there were. */
  #restart(networks: readonly string[]): AddressedPod[] {
    const before = [...this.#found.values()];
    this.#networks = networks;
    this.#within = intervalsOf(networks);
    this.#pods = [];
    this.#found.clear();
    return before;
  }

  #isOutside({ addresses }: Pod): boolean {
    return addresses.some((text) => {
      const address = parseAddress(text);
      return address !== null && !hasInterval(this.#within[address.family], address.value);
    });
  }
}
