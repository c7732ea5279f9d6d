import type { ApiGroup, ClusterNetworkPolicy, Tier } from '../../apis/objects.ts';
import { BUILT_IN_TIERS, type EvaluationPosition } from '../../apis/order.ts';

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
