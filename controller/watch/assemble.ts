import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import type {
  ClusterGroup,
  ClusterNetworkPolicy,
  ClusterObject,
  ClusterObjects,
  Guardrail,
  Tier,
} from '../../apis/objects.ts';
import { groupLookup, membersOf } from '../../apis/validate/groups.ts';
import { identityOf } from '../../apis/validate/metadata.ts';
import { FOR_PODS_ONLY } from '../../apis/validate/policy.ts';
import { formatPath } from '../../apis/validate/problem.ts';
import { checkServiceReferences, referenceCheck } from '../../apis/validate/references.ts';
import { checkTiers } from '../../apis/validate/tier.ts';
import { compareText } from '../../lib/sharing/lists.ts';
import { OBJECT_EXTENSION } from '../extension/objects.ts';
import { type FileContent, LIST_OF_KIND, type Listed, type Undecided } from './content.ts';
import type { LastValidVersions } from './last-valid-versions.ts';
import { compareObjects, mergeFiles, mergeUnique } from './merge.ts';
import {
  type InForce,
  objectsInForce,
  type Settling,
  sortedObjects,
  toLastValid,
  toLoadProblems,
  type UsedDefinitions,
  usedDefinitions,
} from './settle.ts';
import { namedIn, type ReferringObjects, settleReferences } from './settle-references.ts';
import type { LoadProblem, WaitingObject } from './source.ts';

type EgressGateway = ClusterObjects['egressGateways'][number];
type EgressPolicy = ClusterObjects['egressPolicies'][number];

export interface AssembleInput {
  /** The current content of each file, in any order. */
  readonly contents: readonly FileContent[];
  readonly lastValidVersions: LastValidVersions;
  /** Paths that can't be read now: the objects that came from them stay. */
  readonly unreadable: readonly string[];
  /** The last valid version of an object of the kinds that `lastValidVersions` doesn't have. */
  readonly lastValid: (identity: string) => ClusterObject | undefined;
  /**
   * The merged lists of the previous call, so that files with 100,000 pods cost nothing while they
   * don't change.
   */
  readonly merged?: MergeCache;
  /** Names of the link groups in the agent's configuration; absent: the predefined ones. */
  readonly interfaceGroups?: readonly string[] | undefined;
  /**
   * The configuration of egress gateways; absent: the default; null: other objects that they depend
   * on are not among the contents, and the caller looks for problems between them.
   */
  readonly egress?: Config['egress'] | null | undefined;
  /** Limits of the EgressPolicies of a namespace; absent: the default. */
  readonly namespaceLimits?: Config['egress']['namespaceLimits'] | undefined;
}

export type MergeCache = Map<
  keyof ClusterObjects,
  { readonly lists: readonly (readonly ClusterObject[])[]; readonly objects: readonly ClusterObject[] }
>;

export interface Assembled {
  readonly objects: ClusterObjects;
  readonly problems: readonly LoadProblem[];
  readonly lastValidVersions: LastValidVersions;
  /** As those of a Snapshot. */
  readonly waiting: readonly WaitingObject[];
  /** The last valid versions of Tiers and ClusterGroups that others are in force with. */
  readonly definitions: UsedDefinitions;
  /** Identities of Tiers and ClusterGroups that are not there, and in force for these alone. */
  readonly gone: ReadonlySet<string>;
}

/**
 * Combines many files to one state: a function of their content and of the last valid versions
 * only, never of the order of events. An invalid object is replaced by its last valid version, or
 * left out if there is none.
 */
export function assemble(input: AssembleInput): Assembled {
  const { lastValidVersions, interfaceGroups, egress = DEFAULT_CONFIG.egress } = input;
  const contents = [...input.contents].sort((a, b) => (a.file < b.file ? -1 : 1));
  const problems: LoadProblem[] = [];
  const settling: Assembling = { ...input, contents, problems };
  const { inForce: tiers, ...settled } = objectsInForce<Tier>(
    settling,
    ['Tier'],
    (content) => content.tiers,
    checkTiers,
  );
  const { inForce: groups, ...others } = objectsInForce<ClusterGroup>(
    settling,
    ['ClusterGroup'],
    ({ groups }) => groups,
  );
  const invalid = new Set([...settled.invalid, ...others.invalid]);
  const waiting = new Map<string, WaitingObject>();
  const restored = new Set<string>();
  const world = { tiers, groups, lastValidVersions, interfaceGroups, invalid, waiting, restored, problems };
  settleReferences({ ...world, policies: new Map(), guardrails: new Map() });
  const decided = decide(contents, sortedObjects<ClusterGroup>(groups), invalid);
  const { inForce: policies } = objectsInForce<ClusterNetworkPolicy>(
    { ...settling, contents: decided },
    ['ClusterNetworkPolicy'],
    (content) => content.policies,
  );
  const { inForce: guardrails } = objectsInForce<Guardrail>(
    settling,
    ['Guardrail'],
    (content) => content.guardrails,
  );
  const { inForce: gateways, invalid: invalidGateways } = objectsInForce<EgressGateway>(
    settling,
    ['EgressGateway'],
    ({ egressGateways }) => egressGateways,
  );
  const egressPolicies = settleEgressPolicies(settling);
  settleReferences({ ...world, policies, guardrails });
  problems.push(...decided.flatMap((content) => content.problems));
  checkRejected(decided, world);
  const objects: ClusterObjects = {
    nodes: mergeOthers(settling, 'nodes', (content) => content.nodes),
    namespaces: mergeOthers(settling, 'namespaces', (content) => content.namespaces),
    pods: mergeOthers(settling, 'pods', (content) => content.pods),
    services: mergeOthers(settling, 'services', (content) => content.services),
    endpointSlices: mergeOthers(settling, 'endpointSlices', (content) => content.endpointSlices),
    groups: sortedObjects<ClusterGroup>(groups),
    tiers: sortedObjects<Tier>(tiers),
    policies: sortedObjects<ClusterNetworkPolicy>(policies),
    guardrails: sortedObjects<Guardrail>(guardrails),
    egressGateways: sortedObjects<EgressGateway>(gateways),
    egressPolicies: sortedObjects<EgressPolicy>(egressPolicies),
    insideNetworks: mergeOthers(settling, 'insideNetworks', (content) => content.insideNetworks),
  };
  warnOfServices(objects, [groups, policies], problems);
  const between = egress === null ? [] : OBJECT_EXTENSION.problems(objects, egress, invalidGateways);
  for (const { object, problem } of between) {
    const { placed } =
      (object.kind === 'EgressGateway' ? gateways : egressPolicies).get(identityOf(object)) ?? {};
    if (placed) problems.push(...toLoadProblems(object, [{ problem }], placed));
  }
  return {
    objects,
    problems: oncePerKind(problems.sort(compareProblems)),
    waiting: [...waiting.values()],
    definitions: usedDefinitions({ ...world, policies, guardrails }),
    gone: restored,
    lastValidVersions: toLastValid([
      ...[...tiers, ...groups, ...policies, ...guardrails],
      ...[...gateways, ...egressPolicies],
    ]),
  };
}

/**
 * A policy beyond the limits of its namespace is as one that is wrong in itself; what others leave
 * is for last valid versions.
 */
function settleEgressPolicies(settling: Assembling): InForce {
  const { namespaceLimits: limits = DEFAULT_CONFIG.egress.namespaceLimits } = settling;
  const { inForce } = objectsInForce<EgressPolicy>(
    settling,
    ['EgressPolicy', 'ClusterEgressPolicy'],
    (content) => content.egressPolicies,
    (policies) => OBJECT_EXTENSION.beyondLimits([policies], limits),
  );
  const held = Object.groupBy(inForce.values(), ({ placed }) => (placed === null ? 'last' : 'now'));
  if (held.last === undefined) return inForce;
  const lists = [held.now ?? [], held.last].map((list) => list.map(({ object }) => object as EgressPolicy));
  for (const { object } of OBJECT_EXTENSION.beyondLimits(lists, limits)) inForce.delete(identityOf(object));
  return inForce;
}

/**
 * Adds the unresolved references of rejected objects, so that one run reports every problem. An
 * object that exists and is rejected too has its own problems, and counts as present here.
 */
function checkRejected(
  contents: readonly FileContent[],
  world: Omit<ReferringObjects, 'policies' | 'guardrails'>,
): void {
  if (contents.every(({ rejectedReferences }) => rejectedReferences.length === 0)) return;
  const check = referenceCheck({ ...namedIn(world), waiting: undefined });
  for (const { file, rejectedReferences } of contents) {
    for (const { kind, apiGroup, name, line, reference } of rejectedReferences) {
      const problem = check(reference, apiGroup);
      if (problem === null || problem.reason === 'invalid') continue;
      const [path, { message }] = [formatPath(reference.path), problem];
      world.problems.push({ severity: 'error', file, line, kind, name, path, message });
    }
  }
}

interface Assembling extends AssembleInput, Settling {}

/**
 * Warns only about objects in force from files; for a last valid version the warnings were given
 * when it was current.
 */
function warnOfServices(
  { services }: ClusterObjects,
  inForce: readonly InForce[],
  problems: LoadProblem[],
): void {
  let names: Set<string> | null = null;
  const hasService = (wanted: string): boolean => {
    names ??= new Set(services.map(({ namespace, name }) => `${namespace}/${name}`));
    return names.has(wanted);
  };
  for (const { object, placed } of inForce.flatMap((held) => [...held.values()])) {
    if (placed === null || (object.kind !== 'ClusterGroup' && object.kind !== 'ClusterNetworkPolicy'))
      continue;
    const missing = checkServiceReferences([object], hasService);
    if (missing.length > 0) problems.push(...toLoadProblems(object, missing, placed));
  }
}

function mergeOthers<T extends ClusterObject>(
  { contents, problems, lastValid, merged: cache }: Assembling,
  list: keyof ClusterObjects,
  listOf: (content: FileContent) => Listed<T>,
): readonly T[] {
  const lists = contents.map((content) => listOf(content).objects).filter((list) => list.length > 0);
  const known = cache?.get(list);
  const same = known?.lists.length === lists.length && lists.every((list, i) => list === known.lists[i]);
  const unique = same ? (known.objects as readonly T[]) : mergeUnique(lists);
  if (unique === null) cache?.delete(list);
  else cache?.set(list, { lists, objects: unique });
  const merged = unique === null ? mergeFiles(contents, listOf) : null;
  problems.push(...(merged?.problems ?? []));
  const objects = unique ?? merged?.placed.map(({ object }) => object) ?? [];
  const doubtful = new Set(merged?.duplicates);
  for (const { rejected } of contents) {
    for (const identity of rejected) if (listOfIdentity(identity) === list) doubtful.add(identity);
  }
  if (doubtful.size === 0) return objects;
  const valid = new Set(objects.map(identityOf));
  const kept = [...doubtful].flatMap((identity) => (valid.has(identity) ? [] : (lastValid(identity) ?? [])));
  return [...objects, ...(kept as T[])].sort(compareObjects);
}

function listOfIdentity(identity: string): keyof ClusterObjects | undefined {
  const [kind = ''] = identity.split('|', 1);
  return Object.hasOwn(LIST_OF_KIND, kind) ? LIST_OF_KIND[kind as ClusterObject['kind']] : undefined;
}

/** The first of the problems about a kind stands for all, and says how many there are. */
function oncePerKind(problems: readonly LoadProblem[]): LoadProblem[] {
  const isSame = ({ kind, path, message }: LoadProblem): string => `${kind} ${path} ${message}`;
  const all = Map.groupBy(
    problems.filter(({ perKind }) => perKind === true),
    isSame,
  );
  return problems.flatMap(({ perKind, ...problem }) => {
    if (perKind !== true) return [problem];
    const [first, ...more] = all.get(isSame(problem)) ?? [];
    if (!all.delete(isSame(problem)) || first === undefined) return [];
    const files = new Set([first, ...more].map(({ file }) => file)).size;
    const where = files === 1 ? 'this file' : `${files} files`;
    const others = more.length === 0 ? '' : ` (one of ${more.length + 1} such objects in ${where})`;
    return [{ ...problem, message: `${problem.message}${others}` }];
  });
}

/** By position, then by text: the same content gives the same list. */
export function compareProblems(a: LoadProblem, b: LoadProblem): number {
  return (
    compareText(a.file, b.file) ||
    a.line - b.line ||
    compareText(a.name, b.name) ||
    compareText(a.path, b.path) ||
    compareText(a.message, b.message)
  );
}

/**
 * Decides the undecided policies of files: those for pods only become a notice, the others are
 * added as usual.
 */
function decide(
  contents: readonly FileContent[],
  groups: readonly ClusterGroup[],
  invalid: ReadonlySet<string>,
): FileContent[] {
  const lookup = groupLookup(groups, invalid);
  const isForPods = ({ apiGroup, podGroups }: Undecided): boolean =>
    podGroups.every((name) => {
      const group = lookup(apiGroup, name);
      return group !== undefined && membersOf(group, lookup) === 'pods';
    });
  return contents.map((content) => {
    if (content.undecided.length === 0) return content;
    const skipped = content.undecided.filter(isForPods);
    const others = content.undecided.filter((each) => !skipped.includes(each)).map((each) => each.otherwise);
    return {
      ...content,
      undecided: [],
      policies: joined([content, ...others].map(({ policies }) => policies)),
      rejected: new Set([content, ...others].flatMap(({ rejected }) => [...rejected])),
      rejectedReferences: [content, ...others].flatMap(({ rejectedReferences }) => rejectedReferences),
      problems: [
        ...[content, ...others].flatMap(({ problems }) => problems),
        ...skipped.map((each) => toNotice(content.file, each)),
      ],
    };
  });
}

function joined(lists: readonly Listed<ClusterNetworkPolicy>[]): Listed<ClusterNetworkPolicy> {
  return {
    objects: lists.flatMap(({ objects }) => objects),
    lines: lists.flatMap(({ lines }) => lines),
    referenceLines: lists.flatMap(({ referenceLines }) => referenceLines),
  };
}

function toNotice(file: string, { name, line }: Undecided): LoadProblem {
  const kind = 'ClusterNetworkPolicy';
  return { severity: 'notice', file, line, kind, name, path: '', message: FOR_PODS_ONLY };
}
