import type { ClusterNetworkPolicy, ClusterObject, ClusterObjects, Node } from '../../apis/objects.ts';
import { asFields, type FieldMap, type FieldPath } from '../../apis/schema/json-schema.ts';
import { identityOf } from '../../apis/validate/metadata.ts';
import { untilThen } from '../../apis/validate/nearest.ts';
import type { ValidateOptions } from '../../apis/validate/object.ts';
import { STANDARD_INPUT } from '../../apis/validate/problem.ts';
import { OBJECT_EXTENSION } from '../extension/objects.ts';
import { AcceptedAddresses, type AddressOwnership, claimedText } from '../index/accepted-addresses.ts';
import { assemble, compareProblems } from './assemble.ts';
import { contentOf, type FileContent } from './content.ts';
import { type FileList, listFiles } from './files.ts';
import { type LastValidVersions, NO_LAST_VALID } from './last-valid-versions.ts';
import { readManifest, readRaw } from './read-file.ts';
import type { LoadedManifests, LoadProblem, Snapshot } from './source.ts';

/** The position of each policy, for later stages that report problems. */
export type PolicyPlaces = ReadonlyMap<
  ClusterNetworkPolicy,
  { readonly file: string; readonly line: number }
>;

/**
 * Reads manifests once. A path is a directory, read recursively, or a file. Never throws for the
 * content of files: what is invalid, unreadable or not valid YAML is left out and reported in
 * `problems`.
 *
 * @param lastValidVersions stand for what is invalid, as for an agent that has saved them
 * @param cluster has the Nodes, Namespaces, Pods, Services and EndpointSlices of manifests without,
 *   and groups, tiers and egress gateways beside theirs; a name that is in neither is a warning,
 *   as in the webhook; what was deleted there and is still in force does not count
 */
export async function loadManifests(
  paths: readonly string[],
  options: ValidateOptions = {},
  lastValidVersions = NO_LAST_VALID,
  cluster: Pick<Snapshot, 'objects' | 'definitions'> | null = null,
): Promise<LoadedManifests & { readonly places: PolicyPlaces }> {
  const { contents, list } = await readManifests(paths, options);
  const absent = MEMBERS.filter((name) => contents.every((content) => content[name].objects.length === 0));
  const given = new Set(
    NAMED.flatMap((list) => contents.flatMap((one) => one[list].objects.map(identityOf))),
  );
  const others = (object: ClusterObject): boolean => {
    const identity = identityOf(object);
    return !given.has(identity) && cluster?.definitions?.gone.has(identity) !== true;
  };
  const members = cluster === null ? [] : [contentOf(cluster.objects, [...absent, ...NAMED], others)];
  const assembled = assemble({
    contents: [...members, ...contents],
    lastValidVersions,
    unreadable: list.unreadable.map(({ path }) => path),
    lastValid: () => undefined,
    interfaceGroups: options.interfaceGroups,
    egress: options.egressConfig,
    namespaceLimits: options.egressConfig?.namespaceLimits,
  });
  const { objects, problems: found } = acceptNodes(
    assembled,
    contents,
    new AcceptedAddresses(ownershipOf(options)),
  );
  const said = found.map((problem) => withoutReason(problem, cluster !== null));
  const problems = [...unreadableProblems(list), ...said].sort(compareProblems);
  const places: PolicyPlaces = new Map(
    contents.flatMap(({ file, policies: { objects, lines } }) =>
      objects.map((policy, i) => [policy, { file, line: lines[i] ?? 0 }] as const),
    ),
  );
  return { objects, problems, files: list.files.length, places };
}

/**
 * The versions that a cluster keeps in force where manifests have one that waits or that it
 * refuses, with the objects that these are in force with.
 */
export function versionsInForce({ policies, groups, tiers, guardrails }: ClusterObjects): LastValidVersions {
  const all = [...policies, ...groups, ...tiers, ...guardrails];
  return new Map(all.map((object) => [identityOf(object), { file: '', object }]));
}

/** That policies name: those of the cluster count beside those of the manifests. */
const NAMED = ['groups', 'tiers', 'egressGateways'] as const;

/** A cluster stores what waits for another object. */
function withoutReason({ isMissing, ...problem }: LoadProblem, isInCluster: boolean): LoadProblem {
  if (isMissing !== true || !isInCluster) return problem;
  const { kind, message } = problem;
  // That of an egress policy says what becomes of it.
  const isComplete = OBJECT_EXTENSION.kinds.includes(kind);
  return { ...problem, severity: 'warning', message: isComplete ? message : untilThen(message) };
}

/** A cluster's objects beside policies: manifests of policies alone are meant for these. */
const MEMBERS = ['nodes', 'namespaces', 'pods', 'services', 'endpointSlices'] as const;

/** Each file of manifests by itself, and which there are; `-` is standard input. */
export async function readManifests(
  paths: readonly string[],
  options: ValidateOptions,
): Promise<{ readonly contents: readonly FileContent[]; readonly list: FileList }> {
  const list = await listManifests(paths);
  const contents = [];
  for (const file of list.files) contents.push(await readManifest(file, options));
  return { contents, list };
}

/** The files under the paths; `-` is standard input. */
async function listManifests(paths: readonly string[]): Promise<FileList> {
  const found = await listFiles(paths.filter((path) => path !== STANDARD_INPUT));
  const files = paths.includes(STANDARD_INPUT) ? [...found.files, STANDARD_INPUT] : found.files;
  return { ...found, files };
}

export function unreadableProblems({ unreadable }: Pick<FileList, 'unreadable'>): LoadProblem[] {
  return unreadable.map(({ path, reason }) => {
    return {
      severity: 'error',
      file: path,
      line: 0,
      kind: '',
      name: '',
      path: '',
      message: reason,
      unreadable: true,
    };
  });
}

interface Read {
  readonly objects: ClusterObjects;
  readonly problems: readonly LoadProblem[];
}

/** The objects with the addresses of Nodes that are accepted, and a warning for each other Node. */
export function acceptNodes(read: Read, contents: readonly FileContent[], accepted: AcceptedAddresses): Read {
  const objects = accepted.advance(read.objects);
  const refused = new Map(
    objects.nodes.flatMap((node) => (node.claimedAddresses ? [[node.name, node] as const] : [])),
  );
  if (refused.size === 0) return { ...read, objects };
  const warnings = contents.flatMap(({ file, nodes }) =>
    nodes.objects.flatMap(({ name }, i) => {
      const node = refused.get(name);
      return node === undefined ? [] : toWarning(node, file, nodes.lines[i] ?? 0);
    }),
  );
  return { objects, problems: [...read.problems, ...warnings].sort(compareProblems) };
}

function toWarning({ name, claimedAddresses = [] }: Node, file: string, line: number): LoadProblem {
  const message = claimedText(claimedAddresses);
  return { severity: 'warning', file, line, kind: 'Node', name, path: 'status.addresses', message };
}

export function ownershipOf({ nodeCIDRs, egressConfig }: ValidateOptions): AddressOwnership {
  return { nodeCIDRs, podCIDRs: egressConfig?.podCIDRs };
}

/** An object as it is written, whatever its API group. */
export interface WrittenObject {
  readonly raw: FieldMap;
  readonly file: string;
  readonly lineOf: (path: FieldPath) => number;
}

/**
 * All objects of manifests, as they are written. A path is a directory, read recursively, a file,
 * or `-` for standard input. Never throws for the content of files: `problems` has what is not
 * readable, or no YAML or JSON.
 */
export async function readRawObjects(
  paths: readonly string[],
): Promise<{ readonly objects: readonly WrittenObject[]; readonly problems: readonly LoadProblem[] }> {
  const list = await listManifests(paths);
  const objects: WrittenObject[] = [];
  const problems = unreadableProblems(list);
  for (const file of list.files) {
    const content = await readRaw(file, (value, lineOf) => {
      const raw = asFields(value);
      if (raw !== null) objects.push({ raw, file, lineOf });
    });
    problems.push(...content.problems);
  }
  return { objects, problems };
}
