import type { ApiGroup, ClusterGroup } from '../../apis/objects.ts';

/** Finds ClusterGroups by the name that a policy or another group uses. */
export interface GroupIndex {
  /** Prefers a group in the API group of the object that names it, then the other API group. */
  find(name: string, apiGroup: ApiGroup): ClusterGroup | undefined;
}

export function groupIndex(groups: readonly ClusterGroup[]): GroupIndex {
  const byName = Map.groupBy(groups, ({ name }) => name);
  return {
    find(name, apiGroup) {
      const named = byName.get(name);
      return named?.find((group) => group.apiGroup === apiGroup) ?? named?.[0];
    },
  };
}

/**
 * A group and its childGroups, in that order. Children are looked up in the group's own API group
 * first, so that a group means the same whichever object names it. One level only: children of a
 * child are ignored. Throws if a name doesn't exist, which validation should have rejected.
 */
export function groupFamily(
  index: GroupIndex,
  name: string,
  apiGroup: ApiGroup,
): readonly [ClusterGroup, ...ClusterGroup[]] {
  const group = requireGroup(index, name, apiGroup);
  const children = group.spec.childGroups ?? [];
  return [group, ...children.map((child) => requireGroup(index, child, group.apiGroup))];
}

/** The same, without those that do not exist: a group may be created after what names it. */
export function knownFamily(index: GroupIndex, name: string, apiGroup: ApiGroup): readonly ClusterGroup[] {
  const group = index.find(name, apiGroup);
  const children = group?.spec.childGroups ?? [];
  return [group, ...children.map((child) => index.find(child, group?.apiGroup ?? apiGroup))].filter(
    (one) => one !== undefined,
  );
}

function requireGroup(index: GroupIndex, name: string, apiGroup: ApiGroup): ClusterGroup {
  const group = index.find(name, apiGroup);
  if (group === undefined) throw new Error(`there is no ClusterGroup ${name}`);
  return group;
}
