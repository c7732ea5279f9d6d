import type { Compiled, CompiledPolicy, CompiledRule, RuleSource } from '../../apis/compiled.ts';
import { shortHash } from '../../apis/hash.ts';
import type { AppliedTo, ClusterNetworkPolicy, ClusterObjects, Direction, Rule } from '../../apis/objects.ts';
import { comparePlace } from '../../apis/order.ts';
import { type ObjectIndex, objectIndex } from '../index/objectindex.ts';
import { formatSelector } from '../index/selector.ts';
import { type AddressSets, addressSets } from './addressset.ts';
import { ruleNames } from './rulename.ts';
import { toServices } from './services.ts';
import { tierName, tierPriority } from './tiers.ts';

/**
 * Stage 2: the objects' policies with peers resolved, ports as ranges, and the nodes each applies to.
 * A pure function of the objects, in whatever order they are given. The objects must have passed validation;
 * a policy whose tier doesn't exist throws. Cost: rules × log rules, plus for each distinct selector the objects it can select.
 */
export function compile(objects: ClusterObjects): Compiled {
  const index = objectIndex(objects);
  const sets = addressSets(index);
  const spans = nodeSpans(index);
  const allNodes = sets.add([{ nodeSelector: {} }]);
  const placed = objects.policies.map((policy) => ({
    policy,
    name: policy.name,
    apiGroup: policy.apiGroup,
    priority: policy.spec.priority,
    tierPriority: requireTier(objects, policy),
  }));
  placed.sort(comparePlace);
  const policies = placed.map(({ policy, tierPriority }) =>
    compilePolicy(policy, tierPriority, { sets, spans }),
  );
  return {
    policies,
    addressSets: sets.byId,
    allNodes,
    nodeAddresses: new Map(objects.nodes.map((node) => [node.name, node.addresses])),
  };
}

type Spans = (appliedTo: readonly AppliedTo[]) => ReadonlySet<string>;

function compilePolicy(
  policy: ClusterNetworkPolicy,
  tierPriority: number,
  { sets, spans }: { sets: AddressSets; spans: Spans },
): CompiledPolicy {
  const { spec } = policy;
  const names = ruleNames(spec);
  const rules: CompiledRule[] = [];
  const ruleSpans: ReadonlySet<string>[] = [];
  for (const direction of ['ingress', 'egress'] as const) {
    for (const [ruleIndex, rule] of (spec[direction] ?? []).entries()) {
      const source: RuleSource = {
        apiGroup: policy.apiGroup,
        policy: policy.name,
        uid: policy.uid,
        generation: policy.generation,
        direction,
        ruleIndex,
        rule: names[direction][ruleIndex] ?? '',
      };
      rules.push({
        id: ruleId(source),
        source,
        tier: tierName(spec.tier),
        tierPriority,
        priority: spec.priority,
        action: rule.action,
        mode: spec.mode ?? 'Enforce',
        traffic: spec.traffic ?? 'Host',
        addressSets: peerSets(rule, direction, sets),
        services: toServices(rule),
      });
      ruleSpans.push(spans(rule.appliedTo?.length ? rule.appliedTo : (spec.appliedTo ?? [])));
    }
  }
  return { apiGroup: policy.apiGroup, name: policy.name, rules, spans: ruleSpans };
}

function ruleId({ apiGroup, policy, direction, rule }: RuleSource): string {
  return shortHash(12, apiGroup, policy, direction, rule);
}

/** An absent or empty list of peers is any address: no AddressSet. */
function peerSets(rule: Rule, direction: Direction, sets: AddressSets): string[] {
  const peers = (direction === 'ingress' ? rule.from : rule.to) ?? [];
  return peers.length === 0 ? [] : [sets.add(peers)];
}

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
