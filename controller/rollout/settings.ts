import type { ClusterNetworkPolicy, ClusterNetworkPolicySpec } from '../../apis/objects.ts';
import { DEFAULT_ROLLOUT, type RolloutDecision, type RolloutSettings } from '../../apis/rollout.ts';

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
