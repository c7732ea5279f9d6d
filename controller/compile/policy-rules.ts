import type { CompiledRule, RuleLog, RuleSource } from '../../apis/compiled.ts';
import type {
  ClusterGroup,
  ClusterNetworkPolicy,
  Direction,
  LabelSelector,
  PolicyMode,
  Rule,
} from '../../apis/objects.ts';
import { shortHash } from '../../lib/sharing/hash.ts';
import { sameItems } from '../../lib/sharing/same-items.ts';
import { type GroupIndex, groupFamily } from '../index/group-index.ts';
import { canonicalRequirements, formatRequirements, type Requirements } from '../index/selector.ts';
import { type CanonicalPeers, canonicalPeers } from './address-set.ts';
import { type AddressPeer, addressPeers, type FamilyOf, interfaceGroups, nodeSelectors } from './peers.ts';
import { ruleNames } from './rule-name.ts';
import { type CanonicalServices, canonicalServices } from './service-set.ts';
import { toServices } from './services.ts';
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
  readonly selectors: readonly Requirements[];
}

/** What one state of the tiers and groups is to a policy. */
export interface Surroundings {
  readonly tierPriority: number;
  readonly groups: GroupIndex;
  readonly spellings: Spellings;
}

/** What lists of peers and appliedTo come to, for one state. */
export interface Spellings {
  readonly peersOf: (peers: readonly AddressPeer[]) => CanonicalPeers;
  readonly appliedOf: (selectors: readonly LabelSelector[]) => AppliedNodes;
}

/** Many rules spell theirs alike. */
export function memoizedSpellings(): Spellings {
  return { peersOf: memoized(canonicalPeers), appliedOf: memoized(appliedNodes) };
}

function memoized<T, R>(make: (spelled: T) => R): (spelled: T) => R {
  const known = new Map<string, R>();
  return (spelled) => {
    const spelling = JSON.stringify(spelled);
    let made = known.get(spelling);
    if (made === undefined) {
      made = make(spelled);
      known.set(spelling, made);
    }
    return made;
  };
}

/**
 * What a policy (the same JavaScript object) came to before still holds as long as its tier has the
 * same priority and the groups that it names, and their children, are the same objects. Other
 * groups don't matter to it.
 */
export function stillHold(
  rules: PolicyRules,
  policy: ClusterNetworkPolicy,
  { tierPriority, groups }: Surroundings,
): boolean {
  if (rules.tierPriority !== tierPriority) return false;
  const familyOf = families(policy, groups);
  return [...rules.groups].every(([name, family]) => sameItems(family, familyOf(name)));
}

/**
 * `before`: what an earlier version of the policy came to; rules that say the same are taken over
 * from there.
 */
export function policyRules(
  policy: ClusterNetworkPolicy,
  surroundings: Surroundings,
  before: PolicyRules | null = null,
): PolicyRules {
  const now = compiledRules(policy, surroundings, families(policy, surroundings.groups));
  if (before === null) return now;
  const known = new Map(before.rules.map((rule) => [rule.id, rule]));
  const rules = now.rules.map((rule) => {
    const old = known.get(rule.id);
    return old !== undefined && JSON.stringify(old) === JSON.stringify(rule) ? old : rule;
  });
  return { ...now, rules: sameItems(rules, before.rules) ? before.rules : rules };
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

function compiledRules(
  policy: ClusterNetworkPolicy,
  { tierPriority, spellings: { peersOf, appliedOf } }: Surroundings,
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
  const whole = spec.appliedTo?.length ? appliedOf(nodeSelectors(spec.appliedTo, recorded)) : null;
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
    // An absent or empty list of peers is any address, and one of link groups alone has no
    // addresses: no AddressSet.
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
    appliedTo.push(whole ?? appliedOf(nodeSelectors(rule.appliedTo ?? [], recorded)));
  }
  return {
    tierPriority,
    rules,
    appliedTo,
    peers,
    services: services.size === 0 ? NONE : services,
    groups: groups.size === 0 ? NONE : groups,
  };
}

/** Most policies name neither Services nor groups: one map for all of them. */
const NONE: ReadonlyMap<string, never> = new Map<string, never>();

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
  const canonical = selectors.map(canonicalRequirements);
  return { key: canonical.map(formatRequirements).sort().join(' | '), selectors: canonical };
}

/** An Audit rule is there to be read about. */
function ruleLog({ enableLogging, logLabel }: Rule, mode: PolicyMode): RuleLog | null {
  return enableLogging || mode === 'Audit' ? { label: logLabel ?? '' } : null;
}
