import type {
  ApiGroup,
  ClusterObject,
  ClusterObjects,
  Labels,
  Pod,
  ServicePort,
} from '../../apis/objects.ts';
import { asFields, type FieldPath } from '../../apis/schema/json-schema.ts';
import { claimedIdentity } from '../../apis/validate/metadata.ts';
import { type ValidatedObject, type ValidateOptions, validateObject } from '../../apis/validate/object.ts';
import { formatPath, hasError } from '../../apis/validate/problem.ts';
import { crossPaths, type NameReference, readableReferences } from '../../apis/validate/references.ts';
import type { LoadProblem } from './source.ts';

/**
 * Objects of a cluster as a file of their own, which has no name and no lines.
 *
 * @param lists those that are taken
 * @param isTaken which objects of them; absent: all
 */
export function contentOf(
  objects: ClusterObjects,
  lists: readonly (keyof ClusterObjects)[],
  isTaken: (object: ClusterObject) => boolean = () => true,
): FileContent {
  const content = emptyContent('');
  for (const list of lists) {
    const taken = (objects[list] as readonly ClusterObject[]).filter(isTaken);
    const listed = { objects: taken, lines: taken.map(() => 0), referenceLines: taken.map(() => []) };
    Object.assign(content, { [list]: listed });
  }
  return content;
}

/** The valid objects of one kind in one file, with their lines. */
export interface Listed<T extends ClusterObject> {
  readonly objects: T[];
  readonly lines: number[];
  /**
   * For each object, the lines of the fields of crossPaths; only for kinds that have such fields.
   */
  readonly referenceLines: (readonly number[])[];
}

type Lists = { readonly [L in keyof ClusterObjects]: Listed<ClusterObjects[L][number]> };

/** The content of one file. */
export interface FileContent extends Lists {
  readonly file: string;
  /** Policies for which the kind of their groups decides whether they apply to Nodes. */
  readonly undecided: Undecided[];
  /** Identities of the rejected objects. */
  readonly rejected: Set<string>;
  /** The names that rejected policies and groups refer to, as far as they are readable. */
  readonly rejectedReferences: RejectedReference[];
  readonly problems: LoadProblem[];
  /** Part of the file could not be read or parsed, so its other content is unknown. */
  broken: boolean;
}

/** A reference of a rejected policy or group, in a field without another problem. */
interface RejectedReference {
  readonly kind: string;
  readonly apiGroup: ApiGroup;
  readonly name: string;
  readonly line: number;
  readonly reference: NameReference;
}

/** An Antrea policy that is for pods, and ignored, if all these groups select pods. */
export interface Undecided {
  readonly apiGroup: ApiGroup;
  readonly name: string;
  readonly line: number;
  readonly podGroups: readonly string[];
  /** Its content if it is for Nodes. */
  readonly otherwise: FileContent;
}

export const LIST_OF_KIND = {
  Node: 'nodes',
  Namespace: 'namespaces',
  Pod: 'pods',
  Service: 'services',
  EndpointSlice: 'endpointSlices',
  ClusterGroup: 'groups',
  Tier: 'tiers',
  ClusterNetworkPolicy: 'policies',
  Guardrail: 'guardrails',
  EgressGateway: 'egressGateways',
  EgressPolicy: 'egressPolicies',
  ClusterEgressPolicy: 'egressPolicies',
  ServiceCIDR: 'insideNetworks',
  IPPool: 'insideNetworks',
} as const satisfies Record<ClusterObject['kind'], keyof ClusterObjects>;

/** Each list once. */
export const LIST_NAMES: readonly (keyof ClusterObjects)[] = [...new Set(Object.values(LIST_OF_KIND))];

/**
 * Equal labels as one object, and equal strings as one string: pods of one deployment differ in
 * little else.
 */
export type Interned = Map<string, Labels | string | readonly ServicePort[]>;

/** Shares the values that 100,000 objects of a kind have in common. */
export function internObject(object: ClusterObject, interned: Interned): ClusterObject {
  if (object.kind === 'Pod') return internPod(object, interned);
  if (object.kind !== 'Service' && object.kind !== 'EndpointSlice') return object;
  const namespace = intern(interned, `n${object.namespace}`, object.namespace);
  const ports = intern(interned, `p${JSON.stringify(object.ports)}`, object.ports);
  return { ...object, namespace, ports };
}

function internPod(pod: Pod, interned: Interned): Pod {
  const labels = intern(interned, `l${JSON.stringify(pod.labels)}`, pod.labels);
  const namespace = intern(interned, `n${pod.namespace}`, pod.namespace);
  const serviceAccount = intern(interned, `n${pod.serviceAccount}`, pod.serviceAccount);
  const same = { ...pod, namespace, labels, serviceAccount };
  return pod.node === undefined ? same : { ...same, node: intern(interned, `n${pod.node}`, pod.node) };
}

function intern<T extends Labels | string | readonly ServicePort[]>(
  interned: Interned,
  key: string,
  value: T,
): T {
  const known = interned.get(key);
  if (known !== undefined) return known as T;
  interned.set(key, value);
  return value;
}

export function emptyContent(file: string): FileContent {
  const list = <T extends ClusterObject>(): Listed<T> => ({
    objects: [],
    lines: [],
    referenceLines: [],
  });
  return {
    file,
    nodes: list(),
    namespaces: list(),
    pods: list(),
    services: list(),
    endpointSlices: list(),
    groups: list(),
    tiers: list(),
    policies: list(),
    guardrails: list(),
    egressGateways: list(),
    egressPolicies: list(),
    insideNetworks: list(),
    undecided: [],
    rejected: new Set(),
    rejectedReferences: [],
    problems: [],
    broken: false,
  };
}

/** Kinds with fields that refer to other objects. */
const REFERRING: readonly ClusterObject['kind'][] = [
  'Tier',
  'ClusterGroup',
  'ClusterNetworkPolicy',
  'Guardrail',
  'EgressGateway',
  'EgressPolicy',
  'ClusterEgressPolicy',
];

/** A file while it is read. */
export interface Reading {
  readonly content: FileContent;
  readonly options: ValidateOptions;
  readonly interned: Interned;
  /** Gets each object as it is written, in place of the content; absent: objects are validated. */
  readonly receive?: ReceiveRaw | undefined;
}

export type ReceiveRaw = (raw: unknown, lineOf: (path: FieldPath) => number) => void;

/** Adds one raw object; `lineOf` is called only if a line is needed. */
export function addObject(reading: Reading, raw: unknown, lineOf: (path: FieldPath) => number): void {
  if (reading.receive !== undefined) {
    reading.receive(raw, lineOf);
    return;
  }
  const validated = validateObject(raw, reading.options);
  const { podGroups } = validated;
  if (podGroups === undefined) {
    addValidated(reading, { ...validated, raw, lineOf });
    return;
  }
  const otherwise = emptyContent(reading.content.file);
  addValidated({ ...reading, content: otherwise }, { ...validated, raw, lineOf });
  const { name } = claimedIdentity(raw);
  reading.content.undecided.push({
    apiGroup: 'crd.antrea.io',
    name,
    line: lineOf([]),
    podGroups,
    otherwise,
  });
}

interface Placeable extends ValidatedObject {
  readonly raw: unknown;
  readonly lineOf: (path: FieldPath) => number;
}

function addValidated({ content, interned }: Reading, validated: Placeable): void {
  const { object, problems, raw, lineOf } = validated;
  if (object !== null) addTo(content, internObject(object, interned), lineOf);
  if (problems.length === 0) return;
  const { identity, kind, name } = claimedIdentity(raw);
  if (object === null && hasError(problems)) {
    content.rejected.add(identity);
    for (const each of rejectedReferences(validated)) content.rejectedReferences.push(each);
  }
  for (const { severity, path, message, perKind } of problems) {
    const problem: LoadProblem = {
      severity,
      file: content.file,
      line: lineOf(path),
      kind,
      name,
      path: formatPath(path),
      message,
    };
    content.problems.push(perKind === true ? { ...problem, perKind } : problem);
  }
}

function rejectedReferences({ raw, problems, lineOf }: Placeable): RejectedReference[] {
  const { kind, apiGroup, name } = claimedIdentity(raw);
  if (apiGroup === null) return [];
  const reported = new Set(problems.map(({ path }) => formatPath(path)));
  return readableReferences(kind, asFields(raw)?.spec).flatMap((reference) => {
    if (!('name' in reference) || reported.has(formatPath(reference.path))) return [];
    return [{ kind, apiGroup, name, line: lineOf(reference.path), reference }];
  });
}

function addTo(content: FileContent, object: ClusterObject, lineOf: (path: FieldPath) => number): void {
  const list: Listed<ClusterObject> = content[LIST_OF_KIND[object.kind]];
  list.objects.push(object);
  list.lines.push(lineOf([]));
  if (!REFERRING.includes(object.kind)) return;
  list.referenceLines.push(crossPaths(object).map((path) => lineOf(path)));
}

interface Broken {
  readonly reason: string;
  readonly line: number;
  readonly unreadable?: boolean;
  readonly severity?: 'error' | 'warning';
}

/** Adds a problem of the file itself; its content counts as unknown. */
export function addBroken(
  content: FileContent,
  { reason, line, unreadable = false, severity = 'error' }: Broken,
): void {
  content.broken = true;
  const problem: LoadProblem = {
    severity,
    file: content.file,
    line,
    kind: '',
    name: '',
    path: '',
    message: reason,
  };
  content.problems.push(unreadable ? { ...problem, unreadable: true } : problem);
}
