import type { CompiledRule, RuleLog, RuleSource } from '../../apis/compiled.ts';
import { shortHash } from '../../apis/hash.ts';
import type {
  ClusterGroup,
  ClusterNetworkPolicy,
  Direction,
  LabelSelector,
  PolicyMode,
  Rule,
} from '../../apis/objects.ts';
import { type GroupIndex, groupFamily } from '../index/groupindex.ts';
import { formatSelector } from '../index/selector.ts';
import { type CanonicalPeers, canonicalPeers } from './addressset.ts';
import { type AddressPeer, addressPeers, type FamilyOf, interfaceGroups, nodeSelectors } from './peers.ts';
import { ruleNames } from './rulename.ts';
import { toServices } from './services.ts';
import { type CanonicalServices, canonicalServices } from './serviceset.ts';
import { tierName } from './tiers.ts';

/** What a policy comes to, whatever the nodes, pods and Services are. */
export interface PolicyRules {
  readonly tierPriority: number;
  readonly rules: readonly CompiledRule[];
  /** By rule (same index as `rules`): the Nodes it applies to. */
  readonly appliedTo: readonly AppliedNodes[];
  /** What the rules' AddressSets and ServiceSets stand for, by id. */
  readonly peers: ReadonlyMap<string, CanonicalPeers>;
  readonly services: ReadonlyMap<string, CanonicalServices>;
  /** The groups it was made with, by the names the policy has for them. */
  readonly groups: ReadonlyMap<string, readonly ClusterGroup[]>;
}

export interface AppliedNodes {
  /** Equal for equal selectors. */
  readonly key: string;
  readonly selectors: readonly LabelSelector[];
}

/** What one state of the tiers and groups is to a policy. */
interface Surroundings {
  readonly tierPriority: number;
  readonly groups: GroupIndex;
  readonly peersOf: PeersOf;
}

type PeersOf = (peers: readonly AddressPeer[]) => CanonicalPeers;

/** Many rules spell their peers alike. */
export function memoizedPeers(): PeersOf {
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

/**
 * Takes over what a policy (the same JavaScript object) came to before, as long as its tier has the same priority and the groups that it names, and
 * their children, are the same objects. Other groups don't matter to it.
 */
export function policyCompiler(): (policy: ClusterNetworkPolicy, surroundings: Surroundings) => PolicyRules {
  const known = new WeakMap<ClusterNetworkPolicy, PolicyRules>();
  return (policy, surroundings) => {
    const familyOf = families(policy, surroundings.groups);
    let rules = known.get(policy);
    const same =
      rules?.tierPriority === surroundings.tierPriority &&
      [...rules.groups].every(([name, family]) => sameItems(family, familyOf(name)));
    if (rules === undefined || !same) {
      rules = policyRules(policy, surroundings, familyOf);
      known.set(policy, rules);
    }
    return rules;
  };
}

function families({ name: policy, apiGroup }: ClusterNetworkPolicy, groups: GroupIndex): FamilyOf {
  return (name) => {
    try {
      return groupFamily(groups, name, apiGroup);
    } catch (error) {
      throw new Error(`ClusterNetworkPolicy/${policy}: ${(error as Error).message}`, { cause: error });
    }
  };
}

function sameItems<T>(a: readonly T[], b: readonly T[]): boolean {
  return a.length === b.length && a.every((item, i) => item === b[i]);
}

function policyRules(
  policy: ClusterNetworkPolicy,
  { tierPriority, peersOf }: Surroundings,
  familyOf: FamilyOf,
): PolicyRules {
  const { spec } = policy;
  const names = ruleNames(spec);
  const groups = new Map<string, readonly ClusterGroup[]>();
  const recorded: FamilyOf = (name) => {
    const family = groups.get(name) ?? familyOf(name);
    groups.set(name, family);
    return family;
  };
  const whole = spec.appliedTo?.length ? appliedNodes(nodeSelectors(spec.appliedTo, recorded)) : null;
  const rules: CompiledRule[] = [];
  const appliedTo: AppliedNodes[] = [];
  const peers = new Map<string, CanonicalPeers>();
  const services = new Map<string, CanonicalServices>();
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
    // An absent or empty list of peers is any address, and one of link groups alone has no addresses: no AddressSet.
    const withAddresses = listed.some(({ interfaceGroup }) => interfaceGroup === undefined);
    const canonical = withAddresses ? peersOf(addressPeers(listed, recorded)) : null;
    if (canonical !== null) peers.set(canonical.id, canonical);
    const named = rule.toServices?.length ? canonicalServices(rule.toServices) : null;
    if (named !== null) services.set(named.id, named);
    const mode = spec.mode ?? 'Enforce';
    rules.push({
      id: ruleId(source),
      source,
      tier: tierName(spec.tier),
      tierPriority,
      priority: spec.priority,
      action: rule.action,
      mode,
      traffic: spec.traffic ?? 'Host',
      addressSets: canonical === null ? [] : [canonical.id],
      interfaceGroups: interfaceGroups(listed),
      serviceSets: named === null ? [] : [named.id],
      services: toServices(rule),
      log: ruleLog(rule, mode),
    });
    appliedTo.push(whole ?? appliedNodes(nodeSelectors(rule.appliedTo ?? [], recorded)));
  }
  return { tierPriority, rules, appliedTo, peers, services, groups };
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

function appliedNodes(selectors: readonly LabelSelector[]): AppliedNodes {
  return { key: selectors.map(formatSelector).sort().join(' | '), selectors };
}

/** An Audit rule is there to be read about. */
function ruleLog({ enableLogging, logLabel }: Rule, mode: PolicyMode): RuleLog | null {
  return enableLogging || mode === 'Audit' ? { label: logLabel ?? '' } : null;
}
