import { BASELINE_PRIORITY } from '../../apis/baseline.ts';
import type { Config, FailsafeEntry } from '../../apis/config.ts';
import type { ClusterNetworkPolicy, Direction, Rule } from '../../apis/objects.ts';
import { comparePlace, type Place } from '../../apis/order.ts';
import { identityOf } from '../../apis/validate/identity.ts';
import { memo } from '../../lib/sharing/memo.ts';
import { ruleNames } from '../compile/rule-name.ts';
import { placeOfPolicy } from '../compile/tiers.ts';
import { groupIndex } from '../index/group-index.ts';
import type { Related } from './dependants.ts';
import { type Reach, reachCovers, reachOf } from './reach.ts';
import { isSkippedByFailsafe, placeOf } from './risks.ts';

/**
 * The most pairs of rules that are compared, which takes about 50 ms; beyond it a warning may be
 * missing.
 */
const MOST_PAIRS = 50_000;

/**
 * Warns about rules of a valid policy that can never match, because one earlier rule matches all
 * their traffic on every Node that they apply to. Compared are all earlier rules of the same
 * policy; of other policies those for any peer, or with exactly the same peers. Several rules that
 * only together match everything are not found.
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
  const namesOf = memo((one: ClusterNetworkPolicy) => ruleNames(one.spec));
  let pairs = 0;
  return (['ingress', 'egress'] as const).flatMap((direction) => {
    const names = namesOf(policy)[direction];
    const earlierOf = byPeers(before, direction);
    return (policy.spec[direction] ?? []).flatMap((rule, index) => {
      if (pairs > MOST_PAIRS) return [];
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
      const peers = peersKey(rule, direction);
      const isHidden = (earlier: EarlierRule): boolean => hides(earlier.policy, earlier.rule);
      const found =
        earlierOf.get('')?.find(isHidden) ??
        (peers === '' ? undefined : earlierOf.get(peers)?.find(isHidden));
      if (found === undefined) return [];
      const name = `${found.policy.name}/${namesOf(found.policy)[direction][found.index]}`;
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
 * Policies that decide and are evaluated before this one. Traffic passed on by a Pass reaches the
 * baseline tier whatever other tiers' rules say: so if any policy has a Pass, policies of other
 * tiers hide nothing in the baseline tier.
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

/**
 * A rule that doesn't apply to failsafe traffic hides only rules that match none of it, or don't
 * apply to it either.
 */
function mayHide(
  earlier: Rule,
  rule: Rule,
  isHost: boolean,
  { services, toServices }: Reach,
  failsafe: readonly FailsafeEntry[],
): boolean {
  if (!isHost || !isSkippedByFailsafe(earlier) || failsafe.length === 0 || isSkippedByFailsafe(rule))
    return true;
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

/** The rules of one direction by the JSON of their peers; '' stands for any peer. */
function byPeers(
  policies: readonly ClusterNetworkPolicy[],
  direction: Direction,
): Map<string, EarlierRule[]> {
  const rules = policies.flatMap((policy) =>
    (policy.spec[direction] ?? []).map((rule, index): EarlierRule => ({ policy, rule, index })),
  );
  return Map.groupBy(rules, ({ rule }) => peersKey(rule, direction));
}

function peersKey({ from, to }: Rule, direction: Direction): string {
  const peers = direction === 'ingress' ? from : to;
  return peers === undefined ? '' : JSON.stringify(peers);
}
