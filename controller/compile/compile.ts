import type { AddressSet, Compiled, CompiledPolicy, ServiceSet } from '../../apis/compiled.ts';
import { sameMembers } from '../../apis/memberset.ts';
import type { ClusterNetworkPolicy, ClusterObjects } from '../../apis/objects.ts';
import { comparePlace } from '../../apis/order.ts';
import { groupIndex } from '../index/groupindex.ts';
import { type ObjectIndex, objectIndex } from '../index/objectindex.ts';
import { type ServiceIndex, serviceIndex } from '../index/serviceindex.ts';
import { type CanonicalPeers, canonicalPeers, followsServices, resolve } from './addressset.ts';
import { type AppliedNodes, memoizedPeers, type PolicyRules, policyCompiler } from './policyrules.ts';
import { type CanonicalServices, resolveServices, sameServiceMembers } from './serviceset.ts';
import { tierName, tierPriority } from './tiers.ts';

/**
 * Stage 2: the objects' policies with peers resolved, ports as ranges, and the nodes each applies to.
 * A pure function of the objects, in whatever order they are given. The objects must have passed validation;
 * a policy whose tier or group doesn't exist throws. Cost: rules × log rules, plus for each distinct selector the objects it can select.
 */
export function compile(objects: ClusterObjects): Compiled {
  return compiler()(objects);
}

/**
 * `compile` for one state of the objects after another. It gives what `compile` gives; what a policy (the same JavaScript object) came to before
 * is taken over, and so is an AddressSet or ServiceSet whose members are what they were.
 */
export function compiler(): (objects: ClusterObjects) => Compiled {
  const rulesOf = policyCompiler();
  const allNodes = canonicalPeers([{ nodeSelector: {} }]);
  let last: Resolved | null = null;
  return (objects) => {
    const groups = groupIndex(objects.groups);
    const peersOf = memoizedPeers();
    const placed = objects.policies.map((policy) => {
      const priorityOfTier = requireTier(objects, policy);
      const compiled = rulesOf(policy, { tierPriority: priorityOfTier, groups, peersOf });
      const { name, apiGroup, spec } = policy;
      return { compiled, name, apiGroup, priority: spec.priority, tierPriority: priorityOfTier };
    });
    placed.sort(comparePlace);
    const wanted: Wanted = { peers: new Map([[allNodes.id, allNodes]]), services: new Map() };
    for (const { compiled } of placed) {
      for (const [id, peers] of compiled.peers) wanted.peers.set(id, peers);
      for (const [id, services] of compiled.services) wanted.services.set(id, services);
    }
    const resolved = resolveAll(wanted, objects, last);
    last = resolved;
    return {
      policies: placed.map((one) => withSpans(one, one.compiled, resolved.spans)),
      addressSets: resolved.sets,
      serviceSets: resolved.serviceSets,
      allNodes: allNodes.id,
      nodeAddresses: new Map(objects.nodes.map((node) => [node.name, node.addresses])),
    };
  };
}

/** What the rules of all policies name. */
interface Wanted {
  readonly peers: Map<string, CanonicalPeers>;
  readonly services: Map<string, CanonicalServices>;
}

/** What selectors come to over one state of the nodes, namespaces, pods and Services. */
interface Resolved {
  readonly objects: ClusterObjects;
  readonly index: ObjectIndex;
  readonly services: ServiceIndex;
  readonly spans: Spans;
  readonly sets: ReadonlyMap<string, AddressSet>;
  readonly serviceSets: ReadonlyMap<string, ServiceSet>;
}

function resolveAll(wanted: Wanted, objects: ClusterObjects, last: Resolved | null): Resolved {
  const before = last !== null && sameSelected(last.objects, objects) ? last : null;
  const servicesBefore = last !== null && sameServices(last.objects, objects) ? last : null;
  const index = before?.index ?? objectIndex(objects);
  const services = servicesBefore?.services ?? serviceIndex(objects);
  const sets = [...wanted.peers].map(([id, peers]): [string, AddressSet] => {
    const old = last?.sets.get(id);
    const same = before !== null && (servicesBefore !== null || !followsServices(peers));
    if (old !== undefined && same) return [id, old];
    const set = resolve(peers, index, services);
    return [id, old !== undefined && sameAddresses(old, set) ? old : set];
  });
  const serviceSets = [...wanted.services].map(([id, canonical]): [string, ServiceSet] => {
    const old = last?.serviceSets.get(id);
    if (old !== undefined && servicesBefore !== null) return [id, old];
    const set = resolveServices(canonical, services);
    return [id, old !== undefined && sameServiceMembers(old, set) ? old : set];
  });
  return {
    objects,
    index,
    services,
    spans: before?.spans ?? nodeSpans(index),
    sets: new Map(sets),
    serviceSets: new Map(serviceSets),
  };
}

function sameSelected(a: ClusterObjects, b: ClusterObjects): boolean {
  return a.nodes === b.nodes && a.namespaces === b.namespaces && a.pods === b.pods;
}

function sameServices(a: ClusterObjects, b: ClusterObjects): boolean {
  return a.services === b.services && a.endpointSlices === b.endpointSlices;
}

function sameAddresses({ members: a }: AddressSet, { members: b }: AddressSet): boolean {
  return sameMembers(a.v4, b.v4) && sameMembers(a.v6, b.v6);
}

function withSpans(
  { name, apiGroup }: Pick<ClusterNetworkPolicy, 'name' | 'apiGroup'>,
  { rules, appliedTo }: PolicyRules,
  spans: Spans,
): CompiledPolicy {
  return { apiGroup, name, rules, spans: appliedTo.map(spans) };
}

type Spans = (nodes: AppliedNodes) => ReadonlySet<string>;

/** Names of the nodes that selectors select; equal lists share one set. */
function nodeSpans(index: ObjectIndex): Spans {
  const known = new Map<string, ReadonlySet<string>>();
  return ({ key, selectors }) => {
    let span = known.get(key);
    if (span === undefined) {
      const nodes = selectors.flatMap((selector) => index.selectNodes(selector));
      span = new Set(nodes.map((node) => node.name));
      known.set(key, span);
    }
    return span;
  };
}

function requireTier({ tiers }: ClusterObjects, { name, apiGroup, spec }: ClusterNetworkPolicy): number {
  const priority = tierPriority(tiers, apiGroup, spec.tier || tierName(undefined));
  if (priority === null) throw new Error(`ClusterNetworkPolicy/${name}: no tier ${spec.tier}`);
  return priority;
}
