import type {
  ClusterNetworkPolicy,
  ClusterObject,
  ClusterObjects,
  Labels,
  Namespace,
  Node,
  Pod,
  Tier,
} from '../../apis/objects.ts';
import type { FieldPath } from '../../apis/schema/jsonschema.ts';
import { claimedIdentity } from '../../apis/validate/identity.ts';
import { type ValidateOptions, validateObject } from '../../apis/validate/object.ts';
import { formatPath, hasError } from '../../apis/validate/problem.ts';
import type { LoadProblem } from './source.ts';

/** The valid objects of one kind in one file, and the line of each. */
export interface Listed<T extends ClusterObject> {
  readonly objects: T[];
  readonly lines: number[];
  /** Of the one field that is checked against other objects (CROSS_FIELDS); only for kinds that have one. */
  readonly fieldLines: number[];
}

/** The field of an object that other objects can make wrong. */
const CROSS_FIELDS: Readonly<Record<string, FieldPath>> = {
  Tier: ['spec', 'priority'],
  ClusterNetworkPolicy: ['spec', 'tier'],
};

/** What one file holds. */
export interface FileContent {
  readonly file: string;
  readonly nodes: Listed<Node>;
  readonly namespaces: Listed<Namespace>;
  readonly pods: Listed<Pod>;
  readonly tiers: Listed<Tier>;
  readonly policies: Listed<ClusterNetworkPolicy>;
  /** Identities of the objects that were rejected. */
  readonly rejected: Set<string>;
  readonly problems: LoadProblem[];
  /** Some of it could not be read or parsed: what else it holds is not known. */
  broken: boolean;
}

export const LISTS = {
  Node: 'nodes',
  Namespace: 'namespaces',
  Pod: 'pods',
  Tier: 'tiers',
  ClusterNetworkPolicy: 'policies',
} as const satisfies Record<ClusterObject['kind'], keyof ClusterObjects>;

/** Equal labels as one object, and equal words as one string: pods of one deployment differ in little else. */
export type Interned = Map<string, Labels | string>;

function internPod(pod: Pod, interned: Interned): Pod {
  const labels = intern(interned, `l${JSON.stringify(pod.labels)}`, pod.labels);
  const namespace = intern(interned, `n${pod.namespace}`, pod.namespace);
  const serviceAccount = intern(interned, `n${pod.serviceAccount}`, pod.serviceAccount);
  return { ...pod, namespace, labels, serviceAccount };
}

function intern<T extends Labels | string>(interned: Interned, key: string, value: T): T {
  const known = interned.get(key);
  if (known !== undefined) return known as T;
  interned.set(key, value);
  return value;
}

export function emptyContent(file: string): FileContent {
  const list = <T extends ClusterObject>(): Listed<T> => ({ objects: [], lines: [], fieldLines: [] });
  return {
    file,
    nodes: list(),
    namespaces: list(),
    pods: list(),
    tiers: list(),
    policies: list(),
    rejected: new Set(),
    problems: [],
    broken: false,
  };
}

/** A file while it is read. */
export interface Reading {
  readonly content: FileContent;
  readonly options: ValidateOptions;
  readonly interned: Interned;
}

/** Adds what one raw object is; `lineOf` is asked only where it is needed. */
export function addObject(
  { content, options, interned }: Reading,
  raw: unknown,
  lineOf: (path: FieldPath) => number,
): void {
  const { object, problems } = validateObject(raw, options);
  if (object?.kind === 'Pod') addTo(content, internPod(object, interned), lineOf);
  else if (object !== null) addTo(content, object, lineOf);
  if (problems.length === 0) return;
  const { identity, kind, name } = claimedIdentity(raw);
  if (object === null && hasError(problems)) content.rejected.add(identity);
  for (const { severity, path, message } of problems) {
    const problem = {
      severity,
      file: content.file,
      line: lineOf(path),
      kind,
      name,
      path: formatPath(path),
      message,
    };
    content.problems.push(problem);
  }
}

function addTo(content: FileContent, object: ClusterObject, lineOf: (path: FieldPath) => number): void {
  const list: Listed<ClusterObject> = content[LISTS[object.kind]];
  list.objects.push(object);
  list.lines.push(lineOf([]));
  const field = CROSS_FIELDS[object.kind];
  if (field !== undefined) list.fieldLines.push(lineOf(field));
}

interface Broken {
  readonly reason: string;
  readonly line: number;
  readonly unreadable?: boolean;
  readonly severity?: 'error' | 'warning';
}

/** A problem of the file itself; what it held is not known then. */
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
