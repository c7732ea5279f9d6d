import type { CompiledRule, RuleLog, RulePeer, RuleSource } from '../../apis/compiled.ts';
import type {
  ApiGroup,
  ClusterGroup,
  ClusterNetworkPolicy,
  ClusterNetworkPolicySpec,
  Direction,
  LabelSelector,
  PolicyMode,
  Rule,
  Tier,
} from '../../apis/objects.ts';
import { BUILT_IN_TIERS, type EvaluationPosition } from '../../apis/order.ts';
import { shortHash } from '../../lib/sharing/hash.ts';
import { sameItems } from '../../lib/sharing/lists.ts';
import { type GroupIndex, groupFamily } from '../index/name-index.ts';
import { canonicalRequirements, formatRequirements, type Requirements } from '../index/selector.ts';
import {
  type AddressPeer,
  addressPeers,
  type CanonicalPeers,
  canonicalPeers,
  type FamilyOf,
  namesPods,
  nodeSelectors,
  peerInterfaceGroups,
} from './address-set.ts';
import { type CanonicalServices, canonicalServices, toServices } from './service-set.ts';

/** The compiled form of a policy, independent of the current Nodes, Pods and Services. */
export interface PolicyRules {
  readonly tierPriority: number;
  readonly rules: readonly CompiledRule[];
  /** The Nodes that each rule applies to (same index as `rules`). */
  readonly appliedTo: readonly AppliedNodes[];
  /** The peers of the rules' AddressSets, and the Services of their ServiceSets, by id. */
  readonly peers: ReadonlyMap<string, CanonicalPeers>;
  readonly services: ReadonlyMap<string, CanonicalServices>;
  /** The groups it was compiled with, by the names that the policy uses. */
  readonly groups: ReadonlyMap<string, readonly ClusterGroup[]>;
}

export interface AppliedNodes {
  /** Equal for equal selectors. */
  readonly key: string;
  readonly selectors: readonly Requirements[];
}

/** The tiers and groups that a policy is compiled with. */
interface PolicyContext {
  readonly tierPriority: number;
  readonly groups: GroupIndex;
  readonly forms: CanonicalForms;
}

/** Canonical forms of lists of peers and appliedTo, for one state of the objects. */
interface CanonicalForms {
  readonly peersOf: (peers: readonly AddressPeer[]) => CanonicalPeers;
  readonly appliedOf: (selectors: readonly LabelSelector[]) => AppliedNodes;
}

/** Memoized by the lists' JSON, because many rules have equal lists. */
export function memoizedForms(): CanonicalForms {
  return { peersOf: memoized(canonicalPeers), appliedOf: memoized(appliedNodes) };
}

function memoized<T, R>(make: (value: T) => R): (value: T) => R {
  const known = new Map<string, R>();
  return (value) => {
    const key = JSON.stringify(value);
    let made = known.get(key);
    if (made === undefined) {
      made = make(value);
      known.set(key, made);
    }
    return made;
  };
}

/**
 * Whether the compiled form of the same policy object is still valid: its tier has the same
 * priority, and the groups that it names, and their children, are the same objects. Other groups
 * don't affect it.
 */
export function stillHold(
  rules: PolicyRules,
  policy: ClusterNetworkPolicy,
  { tierPriority, groups }: PolicyContext,
): boolean {
  if (rules.tierPriority !== tierPriority) return false;
  const familyOf = families(policy, groups);
  return [...rules.groups].every(([name, family]) => sameItems(family, familyOf(name)));
}

/**
 * Compiles a policy. Reuses the equal rules of `before`, the compiled form of an earlier version.
 */
export function policyRules(
  policy: ClusterNetworkPolicy,
  context: PolicyContext,
  before: PolicyRules | null = null,
): PolicyRules {
  const now = compiledRules(policy, context, families(policy, context.groups));
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
  { tierPriority, forms: { peersOf, appliedOf } }: PolicyContext,
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
    const listed = (direction === 'ingress' ? rule.from : rule.to) ?? [];
    const closes = rule.action === 'Drop' || rule.action === 'Reject';
    const ofPods = direction === 'egress' && closes && namesPods(listed, recorded);
    const source: RuleSource = {
      apiGroup: policy.apiGroup,
      policy: policy.name,
      uid: policy.uid,
      generation: policy.generation,
      direction,
      ruleIndex,
      rule: names[direction][ruleIndex] ?? '',
      ...(spec.established === 'Recheck' ? { established: spec.established } : {}),
      ...(ofPods ? { namesPods: true } : {}),
      ...(policy.retry === undefined ? {} : { retry: policy.retry }),
    };
    const linkGroups = peerInterfaceGroups(listed);
    const own: RulePeer[] = linkGroups.length === 0 ? [] : [{ kind: 'interfaces', groups: linkGroups }];
    // A group without members is a peer too, which matches nothing.
    if (listed.some((peer) => !('interfaceGroup' in peer))) {
      const canonical = peersOf(addressPeers(listed, recorded));
      peers.set(canonical.id, canonical);
      own.push({ kind: 'addresses', set: canonical.id });
    }
    if (rule.toServices?.length) {
      const named = canonicalServices(rule.toServices);
      services.set(named.id, named);
      own.push({ kind: 'services', set: named.id });
    }
    const mode = spec.mode ?? 'Enforce';
    rules.push({
      id: shortHash(12, source.apiGroup, source.policy, source.direction, source.rule),
      source,
      tier: tierName(spec.tier),
      tierPriority,
      priority: spec.priority,
      action: rule.action,
      mode,
      traffic: spec.traffic ?? 'Host',
      peers: own.length === 0 ? [{ kind: 'any' }] : own,
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

/** Most policies name neither Services nor groups: they share one map. */
const NONE: ReadonlyMap<string, never> = new Map<string, never>();

/** Ingress rules first, each direction in the order of its list. */
function* eachRule({ spec }: ClusterNetworkPolicy): Iterable<[Direction, number, Rule]> {
  for (const direction of ['ingress', 'egress'] as const) {
    for (const [ruleIndex, rule] of (spec[direction] ?? []).entries()) yield [direction, ruleIndex, rule];
  }
}

function appliedNodes(selectors: readonly LabelSelector[]): AppliedNodes {
  const canonical = selectors.map(canonicalRequirements);
  return { key: canonical.map(formatRequirements).sort().join(' | '), selectors: canonical };
}

/** Rules in Audit mode always log, because that is their purpose. */
function ruleLog({ enableLogging, logLabel }: Rule, mode: PolicyMode): RuleLog | null {
  return enableLogging || mode === 'Audit' ? { label: logLabel ?? '' } : null;
}

/**
 * Names for the rules of a policy, by direction and rule index: the rule's own name, or one made
 * from its content, so that moving a rule keeps its name. Equal unnamed rules, and a made name that
 * is already taken, get a number appended.
 */
export function ruleNames(spec: ClusterNetworkPolicySpec): Record<Direction, string[]> {
  const rules = { ingress: spec.ingress ?? [], egress: spec.egress ?? [] };
  const taken = new Set([...rules.ingress, ...rules.egress].flatMap((rule) => rule.name || []));
  /** For each made name, the last number appended to it: n equal rules need n steps, not n². */
  const counts = new Map<string, number>();
  const generate = (direction: Direction, rule: Rule): string => {
    const base = `${direction}-${rule.action.toLowerCase()}-${shortHash(7, canonical(rule))}`;
    let count = counts.get(base) ?? 0;
    let name: string;
    do {
      count++;
      name = count === 1 ? base : `${base}-${count}`;
    } while (taken.has(name));
    counts.set(base, count);
    taken.add(name);
    return name;
  };
  const nameAll = (direction: Direction): string[] =>
    rules[direction].map((rule) => rule.name || generate(direction, rule));
  return { ingress: nameAll('ingress'), egress: nameAll('egress') };
}

/** The value with object keys sorted, so that the order of fields in a file doesn't matter. */
function canonical(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(canonical);
  if (typeof value !== 'object' || value === null) return value;
  const sorted = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(sorted.map(([key, field]) => [key, canonical(field)]));
}

const DEFAULT_TIER = 'application';

/**
 * The priority of the tier that a policy names: a built-in tier (Antrea's names in any case), else
 * an object of the policy's own API group, else one of the other API group. Null if there is none.
 */
export function tierPriority(tiers: readonly Tier[], apiGroup: ApiGroup, name: string): number | null {
  const builtIn = BUILT_IN_TIERS[tierName(name)];
  if (builtIn !== undefined) return builtIn;
  const named = tiers.filter((tier) => tier.name === name);
  return (named.find((tier) => tier.apiGroup === apiGroup) ?? named[0])?.priority ?? null;
}

/**
 * The lower-case name of a tier, as used in answers and records; the default tier if there is no
 * name.
 */
export function tierName(name: string | undefined): string {
  return (name || DEFAULT_TIER).toLowerCase();
}

/** The policy's place in evaluation order; null if its tier doesn't exist. */
export function placeOfPolicy(
  { name, apiGroup, spec }: ClusterNetworkPolicy,
  { tiers }: { readonly tiers: readonly Tier[] },
): EvaluationPosition | null {
  const tier = tierPriority(tiers, apiGroup, spec.tier ?? '');
  return tier === null ? null : { tierPriority: tier, priority: spec.priority, name, apiGroup };
}
