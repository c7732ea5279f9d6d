import type { Tier } from '../objects.ts';
import { isBuiltInTier } from './builtin-tiers.ts';
import type { ObjectProblem } from './problem.ts';

/** A problem that depends on several objects, and the object that it is reported for. */
export interface CrossProblem<T> {
  readonly object: T;
  readonly problem: ObjectProblem;
}

/**
 * Reports all tiers that share their priority with another one, since none takes precedence. A tier
 * of the same name in the other API group counts as the same tier and may have the same priority.
 */
export function checkTiers(tiers: readonly Tier[]): CrossProblem<Tier>[] {
  const byPriority = Map.groupBy(
    tiers.filter(({ name }) => !isBuiltInTier(name)),
    (tier) => tier.priority,
  );
  return tiers.flatMap((tier) => {
    const sharing = byPriority.get(tier.priority) ?? [];
    const other = sharing.find(({ name }) => name !== tier.name);
    if (other === undefined || isBuiltInTier(tier.name)) return [];
    const message = `${tier.priority} is also the priority of Tier ${other.name}; each tier needs its own`;
    return [{ object: tier, problem: { severity: 'error', path: ['spec', 'priority'], message } }];
  });
}
