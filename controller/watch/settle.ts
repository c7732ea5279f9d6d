import type { Definition } from '../../apis/last-definition.ts';
import type {
  ApiGroup,
  ClusterGroup,
  ClusterNetworkPolicy,
  ClusterObject,
  Guardrail,
  Tier,
} from '../../apis/objects.ts';
import { groupLookup } from '../../apis/validate/groups.ts';
import { displayName, identityOf } from '../../apis/validate/metadata.ts';
import { type CrossProblem, formatPath } from '../../apis/validate/problem.ts';
import { crossPaths, type NameReference, referencesOf } from '../../apis/validate/references.ts';
import { olderVersions } from '../rollout/order.ts';
import type { FileContent, Listed } from './content.ts';
import { isUnder, type LastValidVersion, type LastValidVersions } from './last-valid-versions.ts';
import { compareObjects, mergeFiles, type PlacedObject } from './merge.ts';
import type { LoadProblem } from './source.ts';

/** The objects in force, by identity. */
export type InForce = Map<string, ObjectInForce>;

export interface ObjectInForce extends LastValidVersion {
  /** The position in a file; null for a last valid version. */
  readonly placed: PlacedObject<LastValidVersion['object']> | null;
}

export interface Settling {
  readonly contents: readonly FileContent[];
  readonly lastValidVersions: LastValidVersions;
  /** Paths that can't be read now: the objects that came from them stay. */
  readonly unreadable: readonly string[];
  /** Problems found are added to this list. */
  readonly problems: LoadProblem[];
}

interface Settled {
  readonly inForce: InForce;
  /** Identities of objects that exist and were rejected, and have no last valid version. */
  readonly invalid: Set<string>;
}

/**
 * The objects of some kinds that are in force: valid ones, and the last valid version of the
 * others.
 */
export function objectsInForce<T extends LastValidVersion['object']>(
  { contents, lastValidVersions, unreadable, problems }: Settling,
  kinds: readonly T['kind'][],
  listOf: (content: FileContent) => Listed<T>,
  check: (objects: readonly T[]) => readonly CrossProblem<T>[] = () => [],
): Settled {
  const versions = [...lastValidVersions].filter(([, { object }]) =>
    (kinds as readonly string[]).includes(object.kind),
  );
  const lost = [...unreadable, ...contents.filter(({ broken }) => broken).map(({ file }) => file)];
  // A broken file keeps its last valid content. If none of it is remembered, its readable part is
  // used.
  const filesWithVersions = new Set([...lastValidVersions.values()].map(({ file }) => file));
  const known = contents.filter(({ broken, file }) => !(broken && filesWithVersions.has(file)));
  const merged = mergeFiles(known, listOf);
  problems.push(...merged.problems);
  const doubtful = new Map(
    merged.duplicates.map((identity) => [identity, lastValidVersions.get(identity)?.file ?? '']),
  );
  for (const { rejected, file } of known) for (const identity of rejected) doubtful.set(identity, file);
  const inForce: InForce = new Map(
    merged.placed.map((placed) => [
      identityOf(placed.object),
      { file: placed.file, object: placed.object, placed },
    ]),
  );
  const places = new Map(merged.placed.map((placed) => [placed.object, placed]));
  for (const { object, problem } of check([...places.keys()])) {
    const identity = identityOf(object);
    const place = places.get(object);
    problems.push(...toLoadProblems(object, [{ problem }], place));
    doubtful.set(identity, place?.file ?? '');
    inForce.delete(identity);
  }
  const halves = known.filter((content) => isPerhapsHalf(content, lastValidVersions)).map(({ file }) => file);
  for (const [identity, item] of versions) {
    if (inForce.has(identity)) continue;
    const file = doubtful.get(identity);
    if (file !== undefined) inForce.set(identity, { file, object: item.object, placed: null });
    else if (isUnder(item.file, lost) || halves.includes(item.file)) {
      inForce.set(identity, { ...item, placed: null });
    }
  }
  return { inForce, invalid: new Set([...doubtful.keys()].filter((identity) => !inForce.has(identity))) };
}

/**
 * A file that is cut off in an object's kind or name still parses, and holds an invalid object with
 * an unknown identity: perhaps the rest of one that it held. Until the file is valid again, none of
 * its objects is removed.
 */
function isPerhapsHalf({ rejected }: FileContent, versions: LastValidVersions): boolean {
  return [...rejected].some((identity) => !versions.has(identity));
}

/** The problems of one object that are caused by others, with their positions. */
export function toLoadProblems<T extends ClusterObject>(
  object: T,
  found: readonly Pick<CrossProblem<T>, 'problem'>[],
  place: PlacedObject<ClusterObject> | null | undefined,
): LoadProblem[] {
  const [kind, name] = [object.kind, displayName(object)];
  const { file = '', line: first = 0, referenceLines = [] } = place ?? {};
  // An egress policy may have hundreds of paths: they are named only where a problem has one.
  const paths = found.some(({ problem }) => problem.path.length > 0) ? crossPaths(object) : [];
  const lines = new Map(paths.map((path, i) => [formatPath(path), referenceLines[i]]));
  return found.map(({ problem: { severity, path, message, isMissing } }) => {
    const at = formatPath(path);
    const said = { severity, file, line: lines.get(at) ?? first, kind, name, path: at, message };
    return isMissing === undefined ? said : { ...said, isMissing };
  });
}

export function sortedObjects<T extends LastValidVersion['object']>(inForce: InForce): T[] {
  return [...inForce.values()].map(({ object }) => object as T).sort(compareObjects);
}

export function toLastValid(inForce: Iterable<readonly [string, ObjectInForce]>): LastValidVersions {
  return new Map([...inForce].map(([identity, { file, object }]) => [identity, { file, object }]));
}

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
