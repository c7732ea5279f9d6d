import type { Definition } from '../../apis/last-definition.ts';
import type { ApiGroup, ClusterGroup, ClusterNetworkPolicy, Guardrail, Tier } from '../../apis/objects.ts';
import { groupLookup } from '../../apis/validate/groups.ts';
import { identityOf } from '../../apis/validate/metadata.ts';
import { type NameReference, referencesOf } from '../../apis/validate/references.ts';
import { olderVersions } from '../rollout/settings.ts';
import { type InForce, sortedObjects } from './settle.ts';

/** By the identity of the policy or Guardrail that uses them; without those that use none. */
export type UsedDefinitions = ReadonlyMap<string, readonly Definition[]>;

export const NO_DEFINITIONS: UsedDefinitions = new Map();

interface InForceObjects {
  readonly tiers: InForce;
  readonly groups: InForce;
  readonly policies: InForce;
  readonly guardrails: InForce;
  /** As that of settleReferences. */
  readonly invalid: ReadonlySet<string>;
}

/**
 * The Tiers and ClusterGroups that are in force only because policies and Guardrails in force use
 * them: those that were deleted, and those that are not valid any more.
 */
export function usedDefinitions(world: InForceObjects): UsedDefinitions {
  const { tiers, groups, policies, guardrails, invalid } = world;
  const isLast = (object: Definition): boolean =>
    (object.kind === 'Tier' ? tiers : groups).get(identityOf(object))?.placed === null;
  const all = [...sortedObjects<Tier>(tiers), ...sortedObjects<ClusterGroup>(groups)];
  if (!all.some(isLast)) return NO_DEFINITIONS;
  const tiersByName = Map.groupBy(sortedObjects<Tier>(tiers), ({ name }) => name);
  const lookup = groupLookup(sortedObjects<ClusterGroup>(groups), invalid);
  const withChildren = (apiGroup: ApiGroup, name: string): Definition[] => {
    const group = lookup(apiGroup, name);
    if (group === undefined) return [];
    return [group, ...(group.spec.childGroups ?? []).flatMap((child) => lookup(group.apiGroup, child) ?? [])];
  };
  const named = (apiGroup: ApiGroup, { to, name }: NameReference): Definition[] => {
    if (to !== 'Tier') return to === 'interfaceGroup' ? [] : withChildren(apiGroup, name);
    const tier = tiersByName.get(name) ?? [];
    return [tier.find((one) => one.apiGroup === apiGroup) ?? tier[0]].flatMap((one) => one ?? []);
  };
  const users = [...sortedObjects<ClusterNetworkPolicy>(policies), ...sortedObjects<Guardrail>(guardrails)];
  const used = new Map<string, readonly Definition[]>();
  for (const user of users) {
    const versions = user.kind === 'Guardrail' ? [user] : [user, ...olderVersions(user)];
    const found = versions
      .flatMap(referencesOf)
      .flatMap((reference) => ('name' in reference ? named(user.apiGroup, reference) : []))
      .filter(isLast);
    if (found.length > 0) used.set(identityOf(user), [...new Set(found)]);
  }
  return used;
}
