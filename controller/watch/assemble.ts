import type { ClusterNetworkPolicy, ClusterObject, ClusterObjects, Tier } from '../../apis/objects.ts';
import { isBuiltInTier } from '../../apis/validate/builtintiers.ts';
import { identityOf } from '../../apis/validate/identity.ts';
import { type CrossProblem, checkTierReferences, checkTiers } from '../../apis/validate/objects.ts';
import { formatPath } from '../../apis/validate/problem.ts';
import type { FileContent, Listed } from './content.ts';
import { isUnder, type Memory, type Remembered } from './memory.ts';
import { compareObjects, mergeFiles, mergeUnique, type Placed } from './merge.ts';
import type { LoadProblem } from './source.ts';

export interface AssembleInput {
  /** What each file holds now, in any order. */
  readonly contents: readonly FileContent[];
  readonly memory: Memory;
  /** Paths of which nothing can be said now: what came from there stays. */
  readonly unreadable: readonly string[];
  /** The last valid version of a Node, Namespace or Pod. */
  readonly lastValid: (identity: string) => ClusterObject | undefined;
  /** The merged lists of the last time, so that files with 100,000 pods cost nothing while they don't change. */
  readonly merged?: MergeCache;
}

export type MergeCache = Map<
  ClusterObject['kind'],
  { readonly lists: readonly (readonly ClusterObject[])[]; readonly objects: readonly ClusterObject[] }
>;

export interface Assembled {
  readonly objects: ClusterObjects;
  readonly problems: readonly LoadProblem[];
  readonly memory: Memory;
}

/**
 * One state out of many files: a function of their content and of the last valid versions alone, never of the order in
 * which things happened. What is invalid now is replaced by its last valid version, or left out where there is none.
 */
export function assemble(input: AssembleInput): Assembled {
  const contents = [...input.contents].sort((a, b) => (a.file < b.file ? -1 : 1));
  const problems = contents.flatMap((content) => content.problems);
  const settling: Settling = { ...input, contents, problems };
  const tiers = settle<Tier>(settling, 'Tier', (content) => content.tiers, checkTiers);
  const policies = settle<ClusterNetworkPolicy>(
    settling,
    'ClusterNetworkPolicy',
    (content) => content.policies,
    (current) => checkTierReferences(current, objectsOf<Tier>(tiers)),
  );
  keepTiers(policies, tiers, input.memory);
  const objects: ClusterObjects = {
    nodes: mergeOthers(settling, 'Node', (content) => content.nodes),
    namespaces: mergeOthers(settling, 'Namespace', (content) => content.namespaces),
    pods: mergeOthers(settling, 'Pod', (content) => content.pods),
    tiers: objectsOf<Tier>(tiers),
    policies: objectsOf<ClusterNetworkPolicy>(policies),
  };
  return { objects, problems: problems.sort(compareProblems), memory: new Map([...tiers, ...policies]) };
}

interface Settling extends AssembleInput {
  readonly problems: LoadProblem[];
}

type InForce = Map<string, Remembered>;

/** Which tiers or policies are in force: valid ones as they are, and the last valid version of the others. */
function settle<T extends Tier | ClusterNetworkPolicy>(
  { contents, memory, unreadable, problems }: Settling,
  kind: T['kind'],
  listOf: (content: FileContent) => Listed<T>,
  check: (objects: readonly T[]) => readonly CrossProblem<T>[],
): InForce {
  const remembered = [...memory].filter(([, { object }]) => object.kind === kind);
  const lost = [...unreadable, ...contents.filter(({ broken }) => broken).map(({ file }) => file)];
  // A broken file holds what it last held. One that nothing is remembered of gives what can be read of it.
  const held = new Set([...memory.values()].map(({ file }) => file));
  const known = contents.filter(({ broken, file }) => !(broken && held.has(file)));
  const merged = mergeFiles(known, listOf);
  problems.push(...merged.problems);
  const places = new Map(merged.placed.map((placed) => [placed.object, placed]));
  const doubtful = new Map(merged.duplicates.map((identity) => [identity, memory.get(identity)?.file ?? '']));
  for (const { rejected, file } of known) for (const identity of rejected) doubtful.set(identity, file);
  const inForce: InForce = new Map(
    merged.placed.map(({ object, file }) => [identityOf(object), { file, object }]),
  );
  for (const { object, problem } of check(merged.placed.map((placed) => placed.object))) {
    const identity = identityOf(object);
    const place = places.get(object);
    problems.push(toLoadProblem(object, problem, place));
    inForce.delete(identity);
    doubtful.set(identity, place?.file ?? '');
  }
  const halves = known.filter((content) => isPerhapsHalf(content, memory)).map(({ file }) => file);
  for (const [identity, item] of remembered) {
    if (inForce.has(identity)) continue;
    const file = doubtful.get(identity);
    if (file !== undefined) inForce.set(identity, { file, object: item.object });
    else if (isUnder(item.file, lost) || halves.includes(item.file)) inForce.set(identity, item);
  }
  return inForce;
}

/**
 * A file cut off in an object's kind or name parses, and holds an invalid object that nobody knows: perhaps what is left of one that it
 * held. Until that is mended nothing it held is taken away.
 */
function isPerhapsHalf({ rejected }: FileContent, memory: Memory): boolean {
  return [...rejected].some((identity) => !memory.has(identity));
}

function toLoadProblem<T extends ClusterObject>(
  object: T,
  { severity, path, message }: CrossProblem<T>['problem'],
  place: Placed<T> | undefined,
): LoadProblem {
  const { file = '', fieldLine: line = 0 } = place ?? {};
  return { severity, file, line, kind: object.kind, name: object.name, path: formatPath(path), message };
}

/** A last valid version needs the tier it was valid with, also when that tier is gone by now. */
function keepTiers(policies: InForce, tiers: InForce, memory: Memory): void {
  const names = new Set([...tiers.values()].map(({ object }) => object.name));
  const wanted = new Set(objectsOf<ClusterNetworkPolicy>(policies).map(({ spec }) => spec.tier ?? ''));
  for (const [identity, item] of memory) {
    const { kind, name } = item.object;
    if (kind === 'Tier' && wanted.has(name) && !names.has(name) && !isBuiltInTier(name))
      tiers.set(identity, item);
  }
}

function objectsOf<T extends Tier | ClusterNetworkPolicy>(inForce: InForce): T[] {
  return [...inForce.values()].map(({ object }) => object as T).sort(compareObjects);
}

function mergeOthers<T extends ClusterObject>(
  { contents, problems, lastValid, merged: cache }: Settling,
  kind: T['kind'],
  listOf: (content: FileContent) => Listed<T>,
): readonly T[] {
  const lists = contents.map((content) => listOf(content).objects).filter((list) => list.length > 0);
  const known = cache?.get(kind);
  const same = known?.lists.length === lists.length && lists.every((list, i) => list === known.lists[i]);
  const unique = same ? (known.objects as readonly T[]) : mergeUnique(lists);
  if (unique === null) cache?.delete(kind);
  else cache?.set(kind, { lists, objects: unique });
  const merged = unique === null ? mergeFiles(contents, listOf) : null;
  problems.push(...(merged?.problems ?? []));
  const objects = unique ?? merged?.placed.map(({ object }) => object) ?? [];
  const doubtful = new Set(merged?.duplicates);
  for (const { rejected } of contents) {
    for (const identity of rejected) if (identity.startsWith(`${kind}|`)) doubtful.add(identity);
  }
  if (doubtful.size === 0) return objects;
  const valid = new Set(objects.map(identityOf));
  const kept = [...doubtful].flatMap((identity) => (valid.has(identity) ? [] : (lastValid(identity) ?? [])));
  return [...objects, ...(kept as T[])].sort(compareObjects);
}

/** By place, then by what is said: the same content gives the same list. */
export function compareProblems(a: LoadProblem, b: LoadProblem): number {
  return (
    compareText(a.file, b.file) ||
    a.line - b.line ||
    compareText(a.name, b.name) ||
    compareText(a.path, b.path) ||
    compareText(a.message, b.message)
  );
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
