import { API_GROUPS, type ApiGroup, type ClusterGroup } from '../objects.ts';
import { identityOf } from './identity.ts';
import type { CrossProblem } from './objects.ts';
import { type FieldPath, show } from './problem.ts';
import { describeUnknown } from './unknown.ts';

/**
 * A group by its name, for an object of an API group: one of the same API group goes first.
 * Undefined: there is none.
 */
export type GroupLookup = (apiGroup: ApiGroup, name: string) => ClusterGroup | undefined;

/**
 * `invalid` are identities of groups that are there and were rejected: nothing in the other API
 * group is meant by their names.
 */
export function groupLookup(
  groups: readonly ClusterGroup[],
  invalid: ReadonlySet<string> = new Set(),
): GroupLookup {
  const byName = Map.groupBy(groups, ({ name }) => name);
  return (apiGroup, name) => {
    const named = byName.get(name);
    const own = named?.find((group) => group.apiGroup === apiGroup);
    return own ?? (invalid.has(groupIdentity(apiGroup, name)) ? undefined : named?.[0]);
  };
}

/** Of a group that may not be there. */
export function groupIdentity(apiGroup: ApiGroup, name: string): string {
  return identityOf({ kind: 'ClusterGroup', apiGroup, name, spec: {} });
}

/** What to say of a name that the lookup knows no group for. */
export function describeUnknownGroup(
  name: string,
  known: readonly ClusterGroup[],
  invalid: ReadonlySet<string>,
): string {
  if (API_GROUPS.some((apiGroup) => invalid.has(groupIdentity(apiGroup, name)))) {
    return `ClusterGroup ${show(name)} is invalid itself`;
  }
  return describeUnknown('ClusterGroup', name, { known: known.map((group) => group.name) });
}

/** What all members of a group are; null where there is no one answer. */
export function membersOf(group: ClusterGroup, lookup: GroupLookup): 'Nodes' | 'pods' | 'CIDRs' | null {
  const { nodeSelector, ipBlocks, childGroups } = group.spec;
  if (nodeSelector !== undefined) return 'Nodes';
  if (ipBlocks !== undefined) return 'CIDRs';
  if (childGroups === undefined) return 'pods';
  const kinds = childGroups.map((name) => {
    const child = lookup(group.apiGroup, name);
    // Groups nest one level; deeper ones are errors, and perhaps without end.
    return child === undefined || child.spec.childGroups !== undefined ? null : membersOf(child, lookup);
  });
  const [first = null] = kinds;
  return kinds.every((kind) => kind === first) ? first : null;
}

/**
 * Groups whose childGroups are no groups, go in a circle, or have childGroups themselves. Of these
 * three only the first that there is: the others may be its consequence. `invalid` as in
 * groupLookup.
 */
export function checkGroups(
  groups: readonly ClusterGroup[],
  invalid: ReadonlySet<string> = new Set(),
): CrossProblem<ClusterGroup>[] {
  const lookup = groupLookup(groups, invalid);
  const parents = groups.filter(({ spec }) => spec.childGroups !== undefined);
  const unknown = parents.flatMap((group) =>
    problemsOf(group, (name) => {
      if (lookup(group.apiGroup, name) !== undefined) return null;
      return describeUnknownGroup(
        name,
        groups.filter((other) => other !== group),
        invalid,
      );
    }),
  );
  if (unknown.length > 0) return unknown;
  const nested = parents.filter((group) => children(group, lookup).some(hasChildren));
  const circular = nested.flatMap((group) =>
    problemsOf(group, (name) => {
      const child = lookup(group.apiGroup, name);
      const way = child === undefined ? null : wayBetween(child, group, lookup);
      const names = [group, ...(way ?? [])].map((step) => step.name);
      return way === null ? null : `goes in a circle: ${names.join(' → ')}; a group can't contain itself`;
    }),
  );
  if (circular.length > 0) return circular;
  return nested.flatMap((group) =>
    problemsOf(group, (name) => {
      const child = lookup(group.apiGroup, name);
      if (child === undefined || !hasChildren(child)) return null;
      return `ClusterGroup ${show(name)} has childGroups itself, so it can't be one of ${show(group.name)}: groups nest one level only`;
    }),
  );
}

function problemsOf(
  group: ClusterGroup,
  problemOf: (child: string) => string | null,
): CrossProblem<ClusterGroup>[] {
  return (group.spec.childGroups ?? []).flatMap((name, index) => {
    const message = problemOf(name);
    const path: FieldPath = ['spec', 'childGroups', index];
    return message === null ? [] : [{ object: group, problem: { severity: 'error', path, message } }];
  });
}

function hasChildren({ spec }: ClusterGroup): boolean {
  return spec.childGroups !== undefined;
}

function children(group: ClusterGroup, lookup: GroupLookup): ClusterGroup[] {
  return (group.spec.childGroups ?? []).flatMap((name) => lookup(group.apiGroup, name) ?? []);
}

/**
 * More groups than this are not looked through for a circle: without one, it is nested too deeply
 * anyhow.
 */
const MOST_STEPS = 1000;

/**
 * The shortest way from one group to another by childGroups, both included; null where there is
 * none.
 */
function wayBetween(from: ClusterGroup, to: ClusterGroup, lookup: GroupLookup): ClusterGroup[] | null {
  const before = new Map<ClusterGroup, ClusterGroup | null>([[from, null]]);
  for (const group of before.keys()) {
    if (group === to) {
      const way: ClusterGroup[] = [];
      for (let at: ClusterGroup | null = group; at !== null; at = before.get(at) ?? null) way.unshift(at);
      return way;
    }
    if (before.size > MOST_STEPS) return null;
    for (const child of children(group, lookup)) if (!before.has(child)) before.set(child, group);
  }
  return null;
}
