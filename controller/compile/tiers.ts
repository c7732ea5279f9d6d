import type { ApiGroup, Tier } from '../../apis/objects.ts';
import { BUILT_IN_TIERS } from '../../apis/validate/builtin-tiers.ts';

const DEFAULT_TIER = 'application';

/**
 * The priority of the tier a policy names: built-in (any case of the Antrea names), else an object
 * of the policy's own API group, else one of the other group. Null where there is none.
 */
export function tierPriority(tiers: readonly Tier[], apiGroup: ApiGroup, name: string): number | null {
  const builtIn = BUILT_IN_TIERS[tierName(name)];
  if (builtIn !== undefined) return builtIn;
  const named = tiers.filter((tier) => tier.name === name);
  return (named.find((tier) => tier.apiGroup === apiGroup) ?? named[0])?.priority ?? null;
}

/** Tier names in answers and records are lower case. */
export function tierName(name: string | undefined): string {
  return (name || DEFAULT_TIER).toLowerCase();
}
