import { BASELINE_PRIORITY } from '../../apis/baseline.ts';
import type { Config, FailsafeEntry } from '../../apis/config.ts';
import type { ClusterNetworkPolicy, Direction, Rule } from '../../apis/objects.ts';
import { comparePlace, type Place } from '../../apis/order.ts';
import { identityOf } from '../../apis/validate/identity.ts';
import { ruleNames } from '../compile/rule-name.ts';
import { tierPriority } from '../compile/tiers.ts';
import { groupIndex } from '../index/group-index.ts';
import type { Related } from './dependants.ts';
import { type Reach, reachCovers, reachOf } from './reach.ts';
import { passesOver, placeOf } from './risks.ts';

/**
 * So many pairs of rules are compared at most, which takes some 50 ms; a warning may be missing
 * then.
 */
const MOST_PAIRS = 50_000;

/**
 * Rules of a valid policy that can never match, because one rule before them matches all that they
 * do, on every Node that they are for. Of the same policy every rule before is looked at; of other
 * policies those that are for anybody, or for exactly the same peers. Several rules that only
 * together match all are not found.
 */
export function shadowWarnings(
  policy: ClusterNetworkPolicy,
  related: Related,
  failsafe: Config['failsafe'],
): string[] {
  const place = placeOfPolicy(policy, related);
  if (place === null) return [];
  const groups = groupIndex(related.groups);
  const reach = reaches(groups);
  const before = policiesBefore(policy, place, related);
  let pairs = 0;
  return (['ingress', 'egress'] as const).flatMap((direction) => {
    const names = ruleNames(policy.spec)[direction];
    const earlierOf = bySpelling(before, direction);
    return (policy.spec[direction] ?? []).flatMap((rule, index) => {
      const own = reach(policy, rule, direction);
      const hides = (other: ClusterNetworkPolicy, earlier: Rule): boolean => {
        if (pairs++ > MOST_PAIRS) return false;
        if (!mayHide(earlier, rule, other.spec.traffic !== 'NodePort', own, failsafe[direction]))
          return false;
        return reachCovers(reach(other, earlier, direction), own);
      };
      const inPolicy = policy.spec.mode === 'Audit' ? [] : (policy.spec[direction] ?? []).slice(0, index);
      const at = inPolicy.findIndex((earlier) => hides(policy, earlier));
      if (at >= 0)
        return [`${placeOf(direction, index)}: can never match: ${names[at]} matches all of it first`];
      const peers = spell(rule, direction);
      const found = [
        ...(earlierOf.get('') ?? []),
        ...(peers === '' ? [] : (earlierOf.get(peers) ?? [])),
      ].find((earlier) => hides(earlier.policy, earlier.rule));
      if (found === undefined) return [];
      const name = `${found.policy.name}/${ruleNames(found.policy.spec)[direction][found.index]}`;
      return [
        `${placeOf(direction, index)}: can never match: ${name} of another policy matches all of it first`,
      ];
    });
  });
}

type ReachOf = (policy: ClusterNetworkPolicy, rule: Rule, direction: Direction) => Reach;

function reaches(groups: ReturnType<typeof groupIndex>): ReachOf {
  const known = new Map<Rule, Reach>();
  return (policy, rule, direction) => {
    let reach = known.get(rule);
    if (reach === undefined) {
      reach = reachOf(rule, policy.spec, direction, { groups, apiGroup: policy.apiGroup });
      known.set(rule, reach);
    }
    return reach;
  };
}

/**
 * Those whose rules decide, and are evaluated before the policy's. What a Pass passes on comes to
 * the baseline tier whatever the others say of it: as long as there is any, they hide nothing
 * there.
 */
function policiesBefore(
  policy: ClusterNetworkPolicy,
  place: Place,
  related: Related,
): ClusterNetworkPolicy[] {
  const identity = identityOf(policy);
  const alike = related.policies.filter((other) => {
    if (identityOf(other) === identity || other.spec.mode === 'Audit') return false;
    return (other.spec.traffic ?? 'Host') === (policy.spec.traffic ?? 'Host');
  });
  const isBaseline = place.tierPriority === BASELINE_PRIORITY;
  const isPassedOn = isBaseline && alike.some(passes);
  return alike.filter((other) => {
    const at = placeOfPolicy(other, related);
    if (at === null || comparePlace(at, place) >= 0) return false;
    return !isPassedOn || at.tierPriority === BASELINE_PRIORITY;
  });
}

function passes({ spec }: ClusterNetworkPolicy): boolean {
  return [...(spec.ingress ?? []), ...(spec.egress ?? [])].some(({ action }) => action === 'Pass');
}

function placeOfPolicy({ name, apiGroup, spec }: ClusterNetworkPolicy, { tiers }: Related): Place | null {
  const tier = tierPriority(tiers, apiGroup, spec.tier ?? '');
  return tier === null ? null : { tierPriority: tier, priority: spec.priority, name, apiGroup };
}

/**
 * A rule that the failsafe makes pass over its traffic hides only what has none of that, or is
 * passed over as well.
 */
function mayHide(
  earlier: Rule,
  rule: Rule,
  isHost: boolean,
  { services, toServices }: Reach,
  failsafe: readonly FailsafeEntry[],
): boolean {
  if (!isHost || !passesOver(earlier) || failsafe.length === 0 || passesOver(rule)) return true;
  if (services.length === 0 || toServices.length > 0) return false;
  return !services.some((service) =>
    failsafe.some(({ protocol, ports: [first, last] }) => {
      if (service.protocol !== protocol || !('ports' in service) || service.ports === undefined) {
        return service.protocol === protocol;
      }
      return service.ports[0] <= last && first <= service.ports[1];
    }),
  );
}

interface EarlierRule {
  readonly policy: ClusterNetworkPolicy;
  readonly rule: Rule;
  readonly index: number;
}

/** The rules of one direction by how their peers are written; '' is anybody. */
function bySpelling(
  policies: readonly ClusterNetworkPolicy[],
  direction: Direction,
): Map<string, EarlierRule[]> {
  const rules = policies.flatMap((policy) =>
    (policy.spec[direction] ?? []).map((rule, index): EarlierRule => ({ policy, rule, index })),
  );
  return Map.groupBy(rules, ({ rule }) => spell(rule, direction));
}

function spell({ from, to }: Rule, direction: Direction): string {
  const peers = direction === 'ingress' ? from : to;
  return peers === undefined ? '' : JSON.stringify(peers);
}
