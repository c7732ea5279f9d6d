import type { ApiGroup, ClusterGroup } from '../../apis/objects.ts';

/** Finds ClusterGroups as a policy or a group names them. */
export interface GroupIndex {
  /** One of the API group of whoever names it, else one of the other API group. */
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
 * A group and its childGroups, in that order; children are looked up in the group's own API group
 * first, so that a group means the same whoever names it. One level: the children of a child are
 * not looked at. Throws on a name that is not there: validation should have seen it.
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

function requireGroup(index: GroupIndex, name: string, apiGroup: ApiGroup): ClusterGroup {
  const group = index.find(name, apiGroup);
  if (group === undefined) throw new Error(`no ClusterGroup ${name}`);
  return group;
}
