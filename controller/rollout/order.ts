import type { ClusterNetworkPolicy, ClusterNetworkPolicySpec, PolicyShare } from '../../apis/objects.ts';
import {
  DEFAULT_ROLLOUT,
  EVERY_PLACE,
  type RolloutDecision,
  type RolloutSettings,
  type RolloutShare,
  type RolloutStep,
} from '../../apis/rollout.ts';
import { shortHash } from '../../lib/sharing/hash.ts';
import { compareText } from '../../lib/sharing/lists.ts';

/** A node that a rollout concerns. */
export interface RolloutNode {
  readonly name: string;
  /** Its failure domain; '' if it has none. */
  readonly zone: string;
  readonly place: string;
}

/** More failure domains have no node before the others: names of nodes are in the status. */
const MOST_FIRSTS = 100;

/**
 * The place of a node, which depends on nothing else, so that nodes that come and go move nobody.
 * @param salt the policy's uid, or the name of its group
 */
export function placeInRollout(node: string, salt: string): string {
  return shortHash(16, node, salt);
}

export function takesPart({ through, firsts }: RolloutShare, name: string, place: string): boolean {
  return place <= through || firsts.includes(name);
}

/** For a share: from the nodes that a list selects to those that have the version. */
export type NodesOfShare = (share: PolicyShare) => (span: ReadonlySet<string>) => ReadonlySet<string>;

/**
 * Equal spans stay the same object, also for all policies of a group: who has which version is
 * computed once for each list of nodes and share.
 */
export function nodesOfShares(): NodesOfShare {
  const known = new WeakMap<ReadonlySet<string>, Map<string, ReadonlySet<string>>>();
  return ({ nodes }) => {
    if (nodes === undefined) return (span) => span;
    const { salt, areTaking, through, firsts } = nodes;
    const key = JSON.stringify([salt, areTaking, through, firsts]);
    return (span) => {
      const there = known.get(span)?.get(key);
      if (there !== undefined) return there;
      const made = new Set(
        [...span].filter((name) => takesPart(nodes, name, placeInRollout(name, salt)) === areTaking),
      );
      // The shares of earlier steps are not needed again.
      const others = [...(known.get(span) ?? [])].slice(-MOST_SHARES);
      known.set(span, new Map([...others, [key, made]]));
      return made;
    };
  };
}

/** Shares of one list of nodes: two for each rollout in progress. */
const MOST_SHARES = 100;

/**
 * The order in which nodes take part: those that do already, then one of each failure domain that
 * has none yet, then all others; each by place.
 */
export function rolloutOrder(nodes: readonly RolloutNode[], share: RolloutShare): readonly RolloutNode[] {
  const byPlace = [...nodes].sort((a, b) => compareText(a.place, b.place) || compareText(a.name, b.name));
  const firsts = new Set(share.firsts);
  const [taking, others] = partition(
    byPlace,
    ({ name, place }) => place <= share.through || firsts.has(name),
  );
  const zones = new Set(taking.map(({ zone }) => zone));
  const leading = new Set<RolloutNode>();
  for (const node of others) {
    if (leading.size >= MOST_FIRSTS || zones.has(node.zone)) continue;
    zones.add(node.zone);
    leading.add(node);
  }
  return [...taking, ...leading, ...others.filter((node) => !leading.has(node))];
}

/** The first `count` nodes of an order. */
export function shareOf(order: readonly RolloutNode[], count: number): RolloutShare {
  if (count >= order.length) return { through: EVERY_PLACE, firsts: [] };
  const [next = EVERY_PLACE] = order
    .slice(count)
    .map(({ place }) => place)
    .sort();
  const chosen = order.slice(0, count);
  const below = chosen.map(({ place }) => place).filter((place) => place < next);
  const through = below.sort().at(-1) ?? '';
  return { through, firsts: chosen.filter(({ place }) => place > through).map(({ name }) => name) };
}

/** How many nodes have the new version after each step; ends with all. */
export function stepSizes(steps: readonly RolloutStep[], total: number): readonly number[] {
  const sizes = steps.map((step) => {
    const size = typeof step === 'number' ? step : Math.ceil((Number.parseInt(step, 10) * total) / 100);
    return Math.min(size, total);
  });
  return steps.at(-1) === '100%' ? sizes : [...sizes, total];
}

function partition<T>(list: readonly T[], holds: (item: T) => boolean): [T[], T[]] {
  const [yes, no]: [T[], T[]] = [[], []];
  for (const item of list) (holds(item) ? yes : no).push(item);
  return [yes, no];
}

/** The settings of a policy's rollout. @param defaults of the configuration */
export function settingsOf(
  { spec }: Pick<ClusterNetworkPolicy, 'spec'>,
  defaults: RolloutSettings | null,
): RolloutSettings {
  const { steps, pause, maxFailures } = { ...(defaults ?? DEFAULT_ROLLOUT), ...spec.rollout };
  return { steps, pause, maxFailures };
}

/** Names a rollout: that of a group, or of one policy. Places of nodes depend on it. */
export function rolloutKey({ spec, uid }: Pick<ClusterNetworkPolicy, 'spec' | 'uid'>): string {
  const group = spec.rollout?.group;
  return group === undefined ? uid : `group ${group}`;
}

/** The part of a spec by which versions are compared, and which is stored. */
export function versionSpec({ rollout: _, ...spec }: ClusterNetworkPolicySpec): ClusterNetworkPolicySpec {
  return spec;
}

/** The versions of a policy in a rollout that nodes have besides its present one. */
export function olderVersions(policy: ClusterNetworkPolicy): readonly ClusterNetworkPolicy[] {
  const { decision, versions = [] } = policy.rollout ?? {};
  const { from, to } = decision?.policies.find(({ uid }) => uid === policy.uid) ?? {};
  return versions
    .filter(({ generation }) => generation !== policy.generation && [from, to].includes(generation))
    .map((version) => ({ ...policy, ...version }));
}

/**
 * The member with the decision that counts for a rollout: the last one, which the leader writes
 * into one policy first. Null: none.
 */
export function withLastDecision<T extends { readonly decision: RolloutDecision | null }>(
  key: string,
  members: readonly T[],
): T | null {
  return members.reduce<T | null>((last, one) => {
    // A policy that came from another rollout has the decision of that one.
    if (one.decision?.key !== key) return last;
    return one.decision.serial > (last?.decision?.serial ?? 0) ? one : last;
  }, null);
}
