import type { ApiGroup, ClusterGroup, ClusterNetworkPolicy, Guardrail, Tier } from '../../apis/objects.ts';
import { checkGroups, groupIdentity, groupLookup } from '../../apis/validate/groups.ts';
import { identityOf } from '../../apis/validate/metadata.ts';
import { type CrossProblem, formatPath } from '../../apis/validate/problem.ts';
import {
  checkPolicyReferences,
  type Named,
  type Reference,
  referencesOf,
  tierIdentity,
} from '../../apis/validate/references.ts';
import { olderVersions } from '../rollout/order.ts';
import type { LastValidVersions } from './last-valid-versions.ts';
import { type InForce, type ObjectInForce, sortedObjects, toLoadProblems } from './settle.ts';
import type { LoadProblem, WaitingObject } from './source.ts';

/** The objects that refer to each other, and the rejected ones. */
export interface ReferringObjects {
  readonly tiers: InForce;
  readonly groups: InForce;
  readonly policies: InForce;
  readonly guardrails: InForce;
  readonly lastValidVersions: LastValidVersions;
  readonly interfaceGroups: readonly string[] | undefined;
  /** Identities of groups and tiers that exist and that nothing can use. */
  readonly invalid: Set<string>;
  /** Objects of files that wait for one that they name, by identity. */
  readonly waiting: Map<string, WaitingObject>;
  /** Identities of groups and tiers that are in force for last valid versions alone. */
  readonly restored: Set<string>;
  readonly problems: LoadProblem[];
}

type Failed = CrossProblem<ClusterGroup | ClusterNetworkPolicy | Guardrail>;

/**
 * Changes the objects in force until every reference between them is valid. An object of a file
 * with an invalid reference is replaced by its last valid version. A last valid version needs the
 * objects that it was valid with: they are restored, in place of their current versions if
 * necessary. Terminates, because every step removes an object of a file, or a last valid version
 * for good, or restores one that was not in force.
 */
export function settleReferences(world: ReferringObjects): void {
  const lost = new Set<string>();
  const asked = new Set<string>();
  for (;;) {
    const failed = check(world);
    if (failed.length === 0) {
      if (restoreForOlder(world, lost, asked)) continue;
      return;
    }
    const inFiles = failed.filter(({ object }) => inForceEntryOf(world, object)?.placed !== null);
    if (inFiles.length > 0) giveUp(world, inFiles, lost);
    else restoreOrDrop(world, failed, lost);
  }
}

/**
 * Nodes may have an older version of a policy in a rollout: what that names and what is gone is
 * restored for it. Returns true if something was; asks once for each name.
 */
function restoreForOlder(world: ReferringObjects, lost: ReadonlySet<string>, asked: Set<string>): boolean {
  const older = sortedObjects<ClusterNetworkPolicy>(world.policies).flatMap(olderVersions);
  const missing = checkPolicyReferences(older, namedIn(world)).filter(({ object, problem }) => {
    const key = `${identityOf(object)} ${object.generation} ${formatPath(problem.path)}`;
    return problem.isMissing === true && !asked.has(key) && asked.add(key);
  });
  const restoring = { lost, fresh: new Set<string>() };
  return missing.map((one) => restore(world, one.object, [one], restoring)).includes(true);
}

/** Groups first: a policy may be invalid only because of them. */
function check(world: ReferringObjects): readonly Failed[] {
  const { policies, guardrails } = world;
  const last = namedIn(world);
  const now = thereIn(world, last);
  const isPlaced = ({ object }: Failed): boolean => inForceEntryOf(world, object)?.placed !== null;
  /** Objects of files name those that are there, last valid versions those that they had. */
  const checkAll = (of: (named: Named) => readonly Failed[]): readonly Failed[] =>
    now === last ? of(last) : [...of(now).filter(isPlaced), ...of(last).filter((one) => !isPlaced(one))];
  const failed = checkAll((named) => checkGroups(named.groups, named));
  if (failed.length > 0) return failed;
  const naming = [...sortedObjects<ClusterNetworkPolicy>(policies), ...sortedObjects<Guardrail>(guardrails)];
  return checkAll((named) => checkPolicyReferences(naming, named));
}

/** Without `restored`, and without groups that wait for such a child. */
function thereIn({ restored, groups: inForce }: ReferringObjects, named: Named): Named {
  if (restored.size === 0) return named;
  const isRestored = (object: Tier | ClusterGroup): boolean => restored.has(identityOf(object));
  const lookup = groupLookup(named.groups, named.invalid);
  const waits = (group: ClusterGroup): boolean => {
    if (inForce.get(identityOf(group))?.placed !== null) return false;
    const children = (group.spec.childGroups ?? []).map((child) => lookup(group.apiGroup, child));
    return children.some((child) => child !== undefined && isRestored(child));
  };
  const tiers = named.tiers.filter((tier) => !isRestored(tier));
  const groups = named.groups.filter((group) => !isRestored(group) && !waits(group));
  return { ...named, tiers, groups };
}

/** Names that the objects in force can use. */
export function namedIn({
  tiers,
  groups,
  interfaceGroups,
  invalid,
  waiting,
}: Omit<ReferringObjects, 'policies' | 'guardrails'>): Named {
  return {
    tiers: sortedObjects<Tier>(tiers),
    groups: sortedObjects<ClusterGroup>(groups),
    interfaceGroups,
    invalid,
    waiting: new Set(waiting.keys()),
  };
}

function inForceOf(world: ReferringObjects, object: Failed['object']): InForce {
  if (object.kind === 'ClusterGroup') return world.groups;
  return object.kind === 'Guardrail' ? world.guardrails : world.policies;
}

function inForceEntryOf(world: ReferringObjects, object: Failed['object']): ObjectInForce | undefined {
  return inForceOf(world, object).get(identityOf(object));
}

function byObject(failed: readonly Failed[]): Map<Failed['object'], readonly Failed[]> {
  return Map.groupBy(failed, ({ object }) => object);
}

/** Replaces objects of files by their last valid versions, or removes them. */
function giveUp(world: ReferringObjects, failed: readonly Failed[], lost: ReadonlySet<string>): void {
  for (const [object, found] of byObject(failed)) {
    for (const each of toLoadProblems(object, found, inForceEntryOf(world, object)?.placed)) {
      world.problems.push(each);
    }
    const identity = identityOf(object);
    if (found.every(({ problem }) => problem.isMissing)) world.waiting.set(identity, object);
    const last = world.lastValidVersions.get(identity);
    const file = inForceEntryOf(world, object)?.file ?? '';
    if (last === undefined || lost.has(identity)) drop(world, object);
    else inForceOf(world, object).set(identity, { file, object: last.object, placed: null });
  }
}

function drop(world: ReferringObjects, object: Failed['object']): void {
  inForceOf(world, object).delete(identityOf(object));
  if (object.kind === 'ClusterGroup') world.invalid.add(identityOf(object));
}

/**
 * Restores the objects that last valid versions were valid with. If these are not known, the last
 * valid versions can't be in force either; they are removed only when nothing more is restored,
 * because many may need the same object.
 */
function restoreOrDrop(world: ReferringObjects, failed: readonly Failed[], lost: Set<string>): void {
  const objects = [...byObject(failed)];
  const restoring = { lost, fresh: new Set<string>() };
  const restored = objects.map(([object, problems]) => restore(world, object, problems, restoring));
  if (restored.includes(true)) return;
  for (const [object] of objects) {
    drop(world, object);
    lost.add(identityOf(object));
  }
}

/** Facts that are found before a group is restored. */
interface Restoring {
  /** Identities of objects without a last valid version that could be in force. */
  readonly lost: ReadonlySet<string>;
  /** Identities of groups that were restored since the problems were found. */
  readonly fresh: Set<string>;
}

/** Returns true if something was restored. */
function restore(
  world: ReferringObjects,
  object: Failed['object'],
  failed: readonly Failed[],
  restoring: Restoring,
): boolean {
  const paths = new Set(failed.map(({ problem }) => formatPath(problem.path)));
  const references = referencesOf(object).filter(({ path }) => paths.has(formatPath(path)));
  return references.map((reference) => restoreOne(world, object, reference, restoring)).includes(true);
}

function restoreOne(
  world: ReferringObjects,
  object: Failed['object'],
  reference: Reference,
  restoring: Restoring,
): boolean {
  switch (reference.to) {
    case 'Tier':
      return restoreTier(world, object.apiGroup, reference.name);
    case 'ClusterGroup':
    case 'Nodes':
      return restoreGroup(world, object, reference.name, restoring);
    case 'interfaceGroup':
    case 'Service':
    case 'Tiers':
      return false;
    default:
      return reference satisfies never;
  }
}

function restoreTier(world: ReferringObjects, apiGroup: ApiGroup, wanted: string): boolean {
  const { tiers, lastValidVersions: versions, invalid, restored } = world;
  // A new, invalid Tier of the policy's own API group hides the one that the policy was valid with.
  invalid.delete(tierIdentity(apiGroup, wanted));
  if (sortedObjects<Tier>(tiers).some(({ name }) => name === wanted)) return true;
  const last = [...versions].filter(([, { object }]) => object.kind === 'Tier' && object.name === wanted);
  for (const [identity, item] of last) {
    tiers.set(identity, { ...item, placed: null });
    restored.add(identity);
  }
  return last.length > 0;
}

/**
 * `needed` is the last valid version that names the group. For names of child groups, the API group
 * of their parent is searched first.
 */
function restoreGroup(
  world: ReferringObjects,
  needed: Pick<Failed['object'], 'kind' | 'name' | 'apiGroup'>,
  wanted: string,
  restoring: Restoring,
): boolean {
  const { groups, lastValidVersions, invalid, problems } = world;
  const { kind, name, apiGroup } = needed;
  const groupVersions = [...lastValidVersions.values()].flatMap(({ object }) => {
    return object.kind === 'ClusterGroup' ? [object] : [];
  });
  const last = groupLookup(groupVersions)(apiGroup, wanted);
  const now = groupLookup(sortedObjects<ClusterGroup>(groups), invalid)(apiGroup, wanted);
  const item = last === undefined ? undefined : lastValidVersions.get(identityOf(last));
  if (last === undefined || item === undefined || restoring.lost.has(identityOf(last))) return false;
  // A new, invalid group of the object's own API group hides the one that it was valid with.
  if (now === undefined && last.apiGroup !== apiGroup && invalid.delete(groupIdentity(apiGroup, wanted))) {
    return true;
  }
  // It may be all that was missing: its children are restored only if it does not do.
  if (now !== undefined && restoring.fresh.has(identityOf(last))) return true;
  if (now !== undefined && sameGroup(last, now)) {
    const children = last.spec.childGroups ?? [];
    const parent = { kind, name, apiGroup: last.apiGroup };
    return children.map((child) => restoreGroup(world, parent, child, restoring)).includes(true);
  }
  if (now !== undefined) {
    const message = `keeps its last valid version, because ${kind} ${name} is invalid now, and its last valid version depends on it`;
    const place = groups.get(identityOf(now))?.placed;
    const problem = { severity: 'error', path: [], message } as const;
    if (place) problems.push(...toLoadProblems(now, [{ problem }], place));
    groups.delete(identityOf(now));
  } else world.restored.add(identityOf(last));
  groups.set(identityOf(last), { ...item, placed: null });
  restoring.fresh.add(identityOf(last));
  return true;
}

/**
 * Compares by content as well, because a group that was read again is another JavaScript object.
 */
function sameGroup(a: ClusterGroup, b: ClusterGroup): boolean {
  return a === b || (a.apiGroup === b.apiGroup && JSON.stringify(a.spec) === JSON.stringify(b.spec));
}
