import { API_GROUPS, type ApiGroup, type ClusterGroup } from '../objects.ts';
import { identityOf } from './metadata.ts';
import { describeUnknown, sortedNames } from './nearest.ts';
import { type CrossProblem, type FieldPath, show } from './problem.ts';

/**
 * Finds a group by name, for an object of an API group; a group of the same API group takes
 * precedence. Undefined if there is none.
 */
export type GroupLookup = (apiGroup: ApiGroup, name: string) => ClusterGroup | undefined;

/** Groups that exist and that nothing can use, by identity. */
export interface UnusableGroups {
  /** Those that were rejected, and those of `waiting`. */
  readonly invalid: ReadonlySet<string>;
  /** Those of `invalid` that wait for a child group; absent: none. */
  readonly waiting?: ReadonlySet<string> | undefined;
}

/**
 * `invalid` holds the identities of groups that exist and were rejected. Their names never stand
 * for a group of the other API group.
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

/** The identity of a group, which need not exist. */
export function groupIdentity(apiGroup: ApiGroup, name: string): string {
  return identityOf({ kind: 'ClusterGroup', apiGroup, name, spec: {} });
}

/** The problem of a name that the lookup finds no group for; `known` returns sortedNames. */
export function unknownGroup(
  name: string,
  known: () => readonly string[],
  { invalid, waiting }: UnusableGroups,
): { readonly reason: 'unknown' | 'invalid'; readonly message: string } {
  const is = (groups: ReadonlySet<string> | undefined): boolean =>
    API_GROUPS.some((apiGroup) => groups?.has(groupIdentity(apiGroup, name)));
  const group = `ClusterGroup ${show(name)}`;
  if (is(waiting)) return { reason: 'unknown', message: `${group} itself names a group that does not exist` };
  if (is(invalid)) return { reason: 'invalid', message: `${group} is itself invalid; correct it first` };
  return { reason: 'unknown', message: describeUnknown('ClusterGroup', name, { known: known() }) };
}

/** The kind of all members of a group; null if they differ or are unknown. */
export function membersOf(group: ClusterGroup, lookup: GroupLookup): 'Nodes' | 'pods' | 'CIDRs' | null {
  const { nodeSelector, ipBlocks, childGroups } = group.spec;
  if (nodeSelector !== undefined) return 'Nodes';
  if (ipBlocks !== undefined) return 'CIDRs';
  if (childGroups === undefined) return 'pods';
  const kinds = childGroups.map((name) => {
    const child = lookup(group.apiGroup, name);
    // Groups nest one level; deeper nesting is an error, and possibly a cycle.
    return child === undefined || child.spec.childGroups !== undefined ? null : membersOf(child, lookup);
  });
  const [first = null] = kinds;
  return kinds.every((kind) => kind === first) ? first : null;
}

/**
 * Reports groups whose childGroups do not exist, form a cycle, or have childGroups themselves: only
 * the first of these three kinds of problem that occurs, since the others may follow from it.
 */
export function checkGroups(
  groups: readonly ClusterGroup[],
  unusable: UnusableGroups = { invalid: new Set() },
): CrossProblem<ClusterGroup>[] {
  const lookup = groupLookup(groups, unusable.invalid);
  const parents = groups.filter(({ spec }) => spec.childGroups !== undefined);
  const unknown = parents.flatMap((group) =>
    problemsOf(group, (name) => {
      if (lookup(group.apiGroup, name) !== undefined) return null;
      return unknownGroup(name, () => sortedNames(groups.filter((other) => other !== group)), unusable);
    }),
  );
  if (unknown.length > 0) return unknown;
  const nested = parents.filter((group) => children(group, lookup).some(hasChildren));
  const circular = nested.flatMap((group) =>
    problemsOf(group, (name) => {
      const child = lookup(group.apiGroup, name);
      const way = child === undefined ? null : wayBetween(child, group, lookup);
      const names = [group, ...(way ?? [])].map((step) => step.name);
      return way === null
        ? null
        : { message: `forms a cycle: ${names.join(' → ')}; a group can't contain itself` };
    }),
  );
  if (circular.length > 0) return circular;
  return nested.flatMap((group) =>
    problemsOf(group, (name) => {
      const child = lookup(group.apiGroup, name);
      if (child === undefined || !hasChildren(child)) return null;
      return {
        message: `ClusterGroup ${show(name)} itself has childGroups, so ${show(group.name)} can't contain it: groups nest one level only`,
      };
    }),
  );
}

function problemsOf(
  group: ClusterGroup,
  problemOf: (child: string) => { readonly message: string; readonly reason?: string } | null,
): CrossProblem<ClusterGroup>[] {
  return (group.spec.childGroups ?? []).flatMap((name, index) => {
    const found = problemOf(name);
    if (found === null) return [];
    const path: FieldPath = ['spec', 'childGroups', index];
    const problem = { severity: 'error', path, message: found.message } as const;
    return [
      { object: group, problem: found.reason === 'unknown' ? { ...problem, isMissing: true } : problem },
    ];
  });
}

function hasChildren({ spec }: ClusterGroup): boolean {
  return spec.childGroups !== undefined;
}

function children(group: ClusterGroup, lookup: GroupLookup): ClusterGroup[] {
  return (group.spec.childGroups ?? []).flatMap((name) => lookup(group.apiGroup, name) ?? []);
}

/** Limit of the search for a cycle. More groups without a cycle are nested too deeply anyway. */
const MOST_STEPS = 1000;

/**
 * The shortest path from one group to another along childGroups, both included; null if there is
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
