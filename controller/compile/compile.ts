import type { AddressSet, Compiled, CompiledPolicy, CompiledRule, RuleSource } from '../../apis/compiled.ts';
import { shortHash } from '../../apis/hash.ts';
import { sameMembers } from '../../apis/memberset.ts';
import type {
  AppliedTo,
  ClusterNetworkPolicy,
  ClusterObjects,
  Direction,
  NetworkPolicyPeer,
  Rule,
} from '../../apis/objects.ts';
import { comparePlace } from '../../apis/order.ts';
import { type ObjectIndex, objectIndex } from '../index/objectindex.ts';
import { formatSelector } from '../index/selector.ts';
import { type CanonicalPeers, canonicalPeers, resolve } from './addressset.ts';
import { ruleNames } from './rulename.ts';
import { toServices } from './services.ts';
import { tierName, tierPriority } from './tiers.ts';

/**
 * Stage 2: the objects' policies with peers resolved, ports as ranges, and the nodes each applies to.
 * A pure function of the objects, in whatever order they are given. The objects must have passed validation;
 * a policy whose tier doesn't exist throws. Cost: rules × log rules, plus for each distinct selector the objects it can select.
 */
export function compile(objects: ClusterObjects): Compiled {
  return compiler()(objects);
}

/**
 * `compile` for one state of the objects after another. It gives what `compile` gives; what a policy (the same JavaScript object) came to before
 * is taken over, and so is an AddressSet whose members are what they were.
 */
export function compiler(): (objects: ClusterObjects) => Compiled {
  const rulesOf = policyCompiler();
  const allNodes = canonicalPeers([{ nodeSelector: {} }]);
  let last: Resolved | null = null;
  return (objects) => {
    const peersOf = memoizedPeers();
    const placed = objects.policies.map((policy) => {
      const compiled = rulesOf(policy, requireTier(objects, policy), peersOf);
      const { name, apiGroup, spec } = policy;
      return {
        policy,
        compiled,
        name,
        apiGroup,
        priority: spec.priority,
        tierPriority: compiled.tierPriority,
      };
    });
    placed.sort(comparePlace);
    const peers = new Map([[allNodes.id, allNodes]]);
    for (const { compiled } of placed) for (const [id, canonical] of compiled.peers) peers.set(id, canonical);
    const resolved = resolveAll(peers, objects, last);
    last = resolved;
    return {
      policies: placed.map(({ policy, compiled }) => withSpans(policy, compiled.rules, resolved.spans)),
      addressSets: resolved.sets,
      allNodes: allNodes.id,
      nodeAddresses: new Map(objects.nodes.map((node) => [node.name, node.addresses])),
    };
  };
}

/** What selectors come to over one state of the nodes, namespaces and pods. */
interface Resolved {
  readonly objects: ClusterObjects;
  readonly index: ObjectIndex;
  readonly spans: Spans;
  readonly sets: ReadonlyMap<string, AddressSet>;
}

function resolveAll(
  peers: ReadonlyMap<string, CanonicalPeers>,
  objects: ClusterObjects,
  last: Resolved | null,
): Resolved {
  const same = last !== null && sameObjects(last.objects, objects);
  const index = same ? last.index : objectIndex(objects);
  const sets = [...peers].map(([id, canonical]): [string, AddressSet] => {
    const before = last?.sets.get(id);
    if (before !== undefined && same) return [id, before];
    const set = resolve(canonical, index);
    const unchanged =
      before !== undefined &&
      sameMembers(before.members.v4, set.members.v4) &&
      sameMembers(before.members.v6, set.members.v6);
    return [id, unchanged ? before : set];
  });
  return { objects, index, spans: same ? last.spans : nodeSpans(index), sets: new Map(sets) };
}

function sameObjects(a: ClusterObjects, b: ClusterObjects): boolean {
  return a.nodes === b.nodes && a.namespaces === b.namespaces && a.pods === b.pods;
}

/** What a policy comes to, whatever the nodes and pods are. */
interface PolicyRules {
  readonly tierPriority: number;
  readonly rules: readonly CompiledRule[];
  readonly peers: ReadonlyMap<string, CanonicalPeers>;
}

type PeersOf = (peers: readonly NetworkPolicyPeer[]) => CanonicalPeers;

/** Many rules spell their peers alike. */
function memoizedPeers(): PeersOf {
  const known = new Map<string, CanonicalPeers>();
  return (peers) => {
    const spelling = JSON.stringify(peers);
    let canonical = known.get(spelling);
    if (canonical === undefined) {
      canonical = canonicalPeers(peers);
      known.set(spelling, canonical);
    }
    return canonical;
  };
}

function policyCompiler(): (
  policy: ClusterNetworkPolicy,
  tierPriority: number,
  peersOf: PeersOf,
) => PolicyRules {
  const known = new WeakMap<ClusterNetworkPolicy, PolicyRules>();
  return (policy, priority, peersOf) => {
    let rules = known.get(policy);
    if (rules?.tierPriority !== priority) {
      rules = policyRules(policy, priority, peersOf);
      known.set(policy, rules);
    }
    return rules;
  };
}

function policyRules(policy: ClusterNetworkPolicy, tierPriority: number, peersOf: PeersOf): PolicyRules {
  const { spec } = policy;
  const names = ruleNames(spec);
  const rules: CompiledRule[] = [];
  const peers = new Map<string, CanonicalPeers>();
  for (const [direction, ruleIndex, rule] of eachRule(policy)) {
    const source: RuleSource = {
      apiGroup: policy.apiGroup,
      policy: policy.name,
      uid: policy.uid,
      generation: policy.generation,
      direction,
      ruleIndex,
      rule: names[direction][ruleIndex] ?? '',
    };
    const listed = (direction === 'ingress' ? rule.from : rule.to) ?? [];
    // An absent or empty list of peers is any address: no AddressSet.
    const canonical = listed.length === 0 ? null : peersOf(listed);
    if (canonical !== null) peers.set(canonical.id, canonical);
    rules.push({
      id: ruleId(source),
      source,
      tier: tierName(spec.tier),
      tierPriority,
      priority: spec.priority,
      action: rule.action,
      mode: spec.mode ?? 'Enforce',
      traffic: spec.traffic ?? 'Host',
      addressSets: canonical === null ? [] : [canonical.id],
      services: toServices(rule),
    });
  }
  return { tierPriority, rules, peers };
}

/** Ingress first, in the order of the list. */
function* eachRule({ spec }: ClusterNetworkPolicy): Iterable<[Direction, number, Rule]> {
  for (const direction of ['ingress', 'egress'] as const) {
    for (const [ruleIndex, rule] of (spec[direction] ?? []).entries()) yield [direction, ruleIndex, rule];
  }
}

function ruleId({ apiGroup, policy, direction, rule }: RuleSource): string {
  return shortHash(12, apiGroup, policy, direction, rule);
}

function withSpans(
  policy: ClusterNetworkPolicy,
  rules: readonly CompiledRule[],
  spans: Spans,
): CompiledPolicy {
  const whole = policy.spec.appliedTo?.length ? spans(policy.spec.appliedTo) : null;
  return {
    apiGroup: policy.apiGroup,
    name: policy.name,
    rules,
    spans: Array.from(eachRule(policy), ([, , rule]) => whole ?? spans(rule.appliedTo ?? [])),
  };
}

type Spans = (appliedTo: readonly AppliedTo[]) => ReadonlySet<string>;

/** Names of the nodes an appliedTo list selects; equal lists share one set. */
function nodeSpans(index: ObjectIndex): Spans {
  const known = new Map<string, ReadonlySet<string>>();
  return (appliedTo) => {
    const key = appliedTo
      .map((item) => formatSelector(item.nodeSelector))
      .sort()
      .join(' | ');
    let span = known.get(key);
    if (span === undefined) {
      const nodes = appliedTo.flatMap((item) => index.selectNodes(item.nodeSelector));
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
