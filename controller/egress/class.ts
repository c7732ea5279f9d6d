import type { NamespaceLimits } from '../../apis/egress/config.ts';
import type { DestinationRange, EgressClass } from '../../apis/egress/node-egress.ts';
import type { EgressPolicy } from '../../apis/egress/objects.ts';
import { BITS, FAMILIES, type Family } from '../../lib/net/address.ts';
import { shortHash } from '../../lib/sharing/hash.ts';
import { addToList, compareText } from '../../lib/sharing/lists.ts';
import { type DestinationIntervals, destinationsOf, segments } from './segments.ts';

/** The decision of the policies for destinations of one family. */
export interface EgressDecision {
  readonly id: string;
  readonly family: Family;
  /** egressPolicyKey of `policy`; '' without one. */
  readonly key: string;
  /** Null: none decides. */
  readonly policy: EgressPolicy | null;
  readonly audited: readonly EgressPolicy[];
  /** Drops all, as the namespace has no room for the class (crowdedClass). */
  readonly isCrowded?: true;
  /** Sources that no gateway may serve (isStray). */
  readonly isStray?: true;
}

export interface FlatClass {
  readonly class: EgressClass;
  readonly decisions: readonly EgressDecision[];
}

/** Identifies a policy over its versions. */
export function egressPolicyKey({ apiGroup, kind, namespace, name }: EgressPolicy): string {
  return `${apiGroup}/${kind}/${namespace}/${name}`;
}

/** The key of the class of sources with these policies, in their order. */
export function classId(policies: readonly EgressPolicy[], isStray = false): string {
  return shortHash(12, [...(isStray ? ['stray'] : []), ...policies.map(egressPolicyKey)]);
}

/**
 * Flattens an ordered list of policies to disjoint destinations: in each the first one decides.
 *
 * @param isStray of addresses of pods that do not count as inside
 */
export function flatten(
  policies: readonly EgressPolicy[],
  destinations: (policy: EgressPolicy) => DestinationIntervals = destinationsOf,
  isStray = false,
): FlatClass {
  const decisions = new Map<string, EgressDecision>();
  const [ipv4 = [], ipv6 = []] = FAMILIES.map((family) => {
    const ranges: DestinationRange[] = [];
    for (const { range, active } of segments(policies.map((policy) => destinations(policy)[family]))) {
      const outcome = decisionOf(policies, active, { family, isStray, known: decisions });
      const last = ranges.at(-1);
      if (last?.outcome === outcome.id && last.range.last + 1n === range.first)
        ranges[ranges.length - 1] = {
          range: { first: last.range.first, last: range.last },
          outcome: outcome.id,
        };
      else ranges.push({ range, outcome: outcome.id });
    }
    return ranges;
  });
  const id = classId(policies, isStray);
  return { class: { id, ipv4, ipv6 }, decisions: [...decisions.values()] };
}

interface DecisionParts {
  readonly family: Family;
  readonly isStray: boolean;
  readonly known: Map<string, EgressDecision>;
}

function decisionOf(
  policies: readonly EgressPolicy[],
  active: readonly number[],
  { family, isStray, known }: DecisionParts,
): EgressDecision {
  const audited: EgressPolicy[] = [];
  let decided: EgressPolicy | null = null;
  for (const i of active) {
    const policy = policies[i];
    if (policy === undefined) continue;
    if (policy.spec.mode === 'Audit') audited.push(policy);
    else {
      decided = policy;
      break;
    }
  }
  const key = [...audited, ...(decided === null ? [] : [decided])].map(egressPolicyKey).join();
  const place = `${isStray ? 'stray ' : ''}${family} ${decided === null} ${key}`;
  const there = known.get(place);
  if (there !== undefined) return there;
  const own = decided === null ? '' : egressPolicyKey(decided);
  const id = shortHash(12, place);
  const decision: EgressDecision = {
    id,
    family,
    key: own,
    policy: decided,
    audited,
    ...(isStray ? { isStray } : {}),
  };
  known.set(place, decision);
  return decision;
}

/** The most destinations of a namespace's classes, for each network that it may have. */
const DESTINATIONS = 64;

/** The class of sources with these policies, in their order. */
interface PolicyClass {
  readonly id: string;
  readonly policies: readonly EgressPolicy[];
}

/**
 * The classes for which their namespace has no room, with the namespace. A pod for each set of
 * policies would make a class of each; the ones with the fewest destinations stay. Does not flatten
 * them.
 */
export function crowdedClasses<C extends PolicyClass>(
  classes: Iterable<C>,
  { networks }: NamespaceLimits,
  destinations: (policy: EgressPolicy) => DestinationIntervals,
): ReadonlyMap<C, string> {
  const found = new Map<C, string>();
  const byNamespace = new Map<string, { used: C; weight: number }[]>();
  for (const used of classes) {
    const namespace = ownPolicy(used)?.namespace;
    if (namespace === undefined) continue;
    const weight = used.policies.reduce((sum, policy) => {
      const { 4: v4, 6: v6 } = destinations(policy);
      return sum + v4.length + v6.length;
    }, 0);
    addToList(byNamespace, namespace, { used, weight });
  }
  for (const [namespace, list] of byNamespace) {
    let room = DESTINATIONS * networks;
    if (list.reduce((sum, { weight }) => sum + weight, 0) <= room) continue;
    list.sort((a, b) => a.weight - b.weight || compareText(a.used.id, b.used.id));
    for (const { used, weight } of list) {
      room -= weight;
      if (room < 0) found.set(used, namespace);
    }
  }
  return found;
}

/** Instead of a class for which its namespace has no room: everything outside is dropped. */
export function crowdedClass(used: PolicyClass): FlatClass {
  const policy = ownPolicy(used) ?? null;
  const key = policy === null ? '' : egressPolicyKey(policy);
  const decisions = FAMILIES.map((family): EgressDecision => {
    const id = shortHash(12, `crowded ${family} ${used.id}`);
    return { id, family, key, policy, audited: [], isCrowded: true };
  });
  const [ipv4 = [], ipv6 = []] = decisions.map(({ id, family }): DestinationRange[] => [
    { range: { first: 0n, last: (1n << BigInt(BITS[family])) - 1n }, outcome: id },
  ]);
  return { class: { id: used.id, ipv4, ipv6 }, decisions };
}

/** Pods are of one namespace, and so are the EgressPolicies that select them. */
function ownPolicy({ policies }: PolicyClass): EgressPolicy | undefined {
  return policies.find(({ kind }) => kind === 'EgressPolicy');
}
