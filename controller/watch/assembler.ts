import type { ClusterNetworkPolicy, ClusterObject, ClusterObjects } from '../../apis/objects.ts';
import { identityOf } from '../../apis/validate/metadata.ts';
import { checkPolicyReferences, checkServiceReferences } from '../../apis/validate/references.ts';
import { type Assembled, type AssembleInput, assemble, compareProblems } from './assemble.ts';
import type { FileContent } from './content.ts';
import type { LastValidVersion } from './last-valid-versions.ts';
import { compareObjects, type PlacedObject } from './merge.ts';
import { NO_DEFINITIONS, toLoadProblems } from './settle.ts';
import type { LoadProblem } from './source.ts';

/**
 * An incremental `assemble` for successive states of the files: returns the same result as
 * `assemble`, in which unchanged lists are the same arrays. If everything is valid, and only files
 * that hold nothing but policies change and stay valid, only those files are evaluated; otherwise
 * all are.
 */
export function assembler(): Assembler {
  let last: Last | null = null;
  const assembleNext = (input: AssembleInput): Assembled => {
    const before = last;
    last = null;
    const edited = before === null ? null : afterEdit(before, input);
    const assembled = edited ?? withLists(assemble(input), before?.assembled.objects);
    last = {
      assembled,
      input,
      files: edited === null ? filesOf(input) : (before?.files ?? filesOf(input)),
      isPlain: edited === null ? null : true,
      evaluatedAll: edited === null,
    };
    return assembled;
  };
  return Object.assign(assembleNext, { evaluatedAll: () => last?.evaluatedAll ?? true });
}

export interface Assembler {
  (input: AssembleInput): Assembled;
  /** Whether the last call evaluated all files. */
  evaluatedAll(): boolean;
}

/** One state; an edit changes the map in place. */
interface Last {
  readonly assembled: Assembled;
  readonly input: AssembleInput;
  readonly files: Map<string, FileContent>;
  /** See isPlain; null if not computed yet. */
  isPlain: boolean | null;
  readonly evaluatedAll: boolean;
}

function filesOf({ contents }: AssembleInput): Map<string, FileContent> {
  return new Map(contents.map((content) => [content.file, content]));
}

/** Null if all files must be evaluated. */
function afterEdit(last: Last, input: AssembleInput): Assembled | null {
  const { lastValidVersions, problems, objects } = last.assembled;
  if (
    input.lastValidVersions !== lastValidVersions ||
    input.unreadable.length > 0 ||
    input.interfaceGroups !== last.input.interfaceGroups
  )
    return null;
  const changed = changedFiles(last.files, input.contents);
  if (!changed.every(isEditOfPolicies)) return null;
  last.isPlain ??= isPlain(last);
  if (!last.isPlain) return null;
  const files = new Set(changed.map(({ file }) => file));
  const now = new Map(lastValidVersions);
  const removed = new Set<LastValidVersion['object']>();
  for (const { before } of changed) {
    for (const policy of before?.policies.objects ?? []) {
      now.delete(identityOf(policy));
      removed.add(policy);
    }
  }
  const added: PlacedObject<ClusterNetworkPolicy>[] = changed.flatMap(({ file, now: content }) =>
    content === null ? [] : placedPolicies(file, content),
  );
  for (const { object, file } of added) {
    const identity = identityOf(object);
    // The same identity twice.
    if (now.has(identity)) return null;
    now.set(identity, { file, object });
  }
  const named = { ...objects, interfaceGroups: input.interfaceGroups, invalid: NOTHING };
  if (
    checkPolicyReferences(
      added.map(({ object }) => object),
      named,
    ).length > 0
  )
    return null;
  const policies = editedList(
    objects.policies,
    removed,
    added.map(({ object }) => object),
  );
  const own = [
    ...changed.flatMap(({ now: content }) => content?.problems ?? []),
    ...serviceWarnings(added, objects),
  ];
  for (const { file, now: content } of changed) {
    if (content === null) last.files.delete(file);
    else last.files.set(file, content);
  }
  const others = problems.filter(({ file }) => !files.has(file));
  return {
    objects: policies === objects.policies ? objects : { ...objects, policies },
    problems: [...others, ...own].sort(compareProblems),
    lastValidVersions: now,
    waiting: [],
    definitions: NO_DEFINITIONS,
    gone: NOTHING,
  };
}

const NOTHING: ReadonlySet<string> = new Set();

interface ChangedFile {
  readonly file: string;
  readonly before: FileContent | null;
  readonly now: FileContent | null;
}

function changedFiles(
  before: ReadonlyMap<string, FileContent>,
  contents: readonly FileContent[],
): ChangedFile[] {
  const changed: ChangedFile[] = [];
  let known = 0;
  for (const content of contents) {
    const { file } = content;
    const there = before.get(file) ?? null;
    if (there !== null) known++;
    if (there !== content) changed.push({ file, before: there, now: content });
  }
  if (known === before.size) return changed;
  const now = new Set(contents.map(({ file }) => file));
  for (const [file, there] of before) if (!now.has(file)) changed.push({ file, before: there, now: null });
  return changed;
}

/**
 * Whether the file holds only policies, before and now, and none of them needs its last valid
 * version.
 */
function isEditOfPolicies({ before, now }: ChangedFile): boolean {
  const onlyPolicies = OTHERS.every(
    (list) => (before?.[list].objects ?? []).length === 0 && (now?.[list].objects ?? []).length === 0,
  );
  return onlyPolicies && (now === null || isSound(now));
}

const OTHERS = [
  'nodes',
  'namespaces',
  'pods',
  'services',
  'endpointSlices',
  'groups',
  'tiers',
  'guardrails',
  'egressGateways',
  'egressPolicies',
  'insideNetworks',
] as const;

function isSound({ broken, rejected, undecided }: FileContent): boolean {
  return !broken && rejected.size === 0 && undecided.length === 0;
}

/**
 * Whether the objects in force are exactly those of the files: nothing invalid, undecided,
 * duplicate, or replaced by its last valid version.
 */
function isPlain({ assembled: { lastValidVersions }, input, files }: Last): boolean {
  if (input.unreadable.length > 0) return false;
  let count = 0;
  for (const [file, content] of files) {
    if (!isSound(content)) return false;
    for (const object of VERSIONED.flatMap((list): readonly ClusterObject[] => content[list].objects)) {
      const held = lastValidVersions.get(identityOf(object));
      if (held?.object !== object || held.file !== file) return false;
      count++;
    }
  }
  return count === lastValidVersions.size;
}

const VERSIONED = ['tiers', 'groups', 'policies', 'guardrails', 'egressGateways', 'egressPolicies'] as const;

function placedPolicies(file: string, { policies }: FileContent): PlacedObject<ClusterNetworkPolicy>[] {
  return policies.objects.map((object, i) => ({
    object,
    file,
    line: policies.lines[i] ?? 0,
    referenceLines: policies.referenceLines[i] ?? [],
  }));
}

function serviceWarnings(
  policies: readonly PlacedObject<ClusterNetworkPolicy>[],
  { services }: ClusterObjects,
): LoadProblem[] {
  let names: Set<string> | null = null;
  const hasService = (wanted: string): boolean => {
    names ??= new Set(services.map(({ namespace, name }) => `${namespace}/${name}`));
    return names.has(wanted);
  };
  return policies.flatMap((placed) =>
    toLoadProblems(placed.object, checkServiceReferences([placed.object], hasService), placed),
  );
}

/** Sorted; the same array if it holds the same objects. */
function editedList<T extends ClusterObject>(
  list: readonly T[],
  removed: ReadonlySet<object>,
  added: readonly T[],
): readonly T[] {
  const back = added.filter((object) => removed.has(object)).length;
  if (back === removed.size && back === added.length) return list;
  return [...list.filter((object) => !removed.has(object)), ...added].sort(compareObjects);
}

/** Replaces lists that hold the same objects as before by the previous arrays. */
function withLists(assembled: Assembled, before: ClusterObjects | undefined): Assembled {
  if (before === undefined) return assembled;
  const { objects } = assembled;
  const keep = <T>(now: readonly T[], then: readonly T[]): readonly T[] =>
    now === then || (now.length === then.length && now.every((object, i) => object === then[i])) ? then : now;
  return {
    ...assembled,
    objects: {
      nodes: keep(objects.nodes, before.nodes),
      namespaces: keep(objects.namespaces, before.namespaces),
      pods: keep(objects.pods, before.pods),
      services: keep(objects.services, before.services),
      endpointSlices: keep(objects.endpointSlices, before.endpointSlices),
      groups: keep(objects.groups, before.groups),
      tiers: keep(objects.tiers, before.tiers),
      policies: keep(objects.policies, before.policies),
      guardrails: keep(objects.guardrails, before.guardrails),
      egressGateways: keep(objects.egressGateways, before.egressGateways),
      egressPolicies: keep(objects.egressPolicies, before.egressPolicies),
      insideNetworks: keep(objects.insideNetworks, before.insideNetworks),
    },
  };
}
