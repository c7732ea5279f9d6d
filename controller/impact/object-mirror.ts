import { type ClusterObject, type ClusterObjects, NO_OBJECTS } from '../../apis/objects.ts';
import {
  MirroredProcess,
  type MirroredProcessOptions,
  type NamedChange,
  serveMirrored,
} from '../../lib/process/mirrored-process.ts';
import { listChange } from '../../lib/sharing/lists.ts';
import { type Interned, internObject } from '../watch/content.ts';

/** The lists that are compiled. */
const LISTS = [
  ...(['nodes', 'namespaces', 'pods', 'services', 'endpointSlices'] as const),
  ...(['groups', 'tiers', 'policies', 'guardrails'] as const),
] as const satisfies readonly (keyof ClusterObjects)[];

/** A process that has the objects that are compiled; its module calls `serveObjects`. */
export function mirroredObjects<Question extends object, Answer extends object>(
  options: Pick<MirroredProcessOptions<ClusterObjects, Answer>, 'file' | 'heap' | 'isLast'>,
): MirroredProcess<ClusterObjects, Question, Answer> {
  return new MirroredProcess({ ...options, changes: objectChanges, costOf: rulesOf });
}

function objectChanges(): (objects: ClusterObjects) => Iterable<NamedChange> {
  let sent = NO_OBJECTS;
  return (objects) => {
    const before = sent;
    sent = objects;
    return LISTS.map((list) => ({ list, ...listChange<ClusterObject>(before[list], objects[list]) }));
  };
}

/** Another object counts as one rule. */
export function rulesOf(object: object): number {
  const { kind, spec } = object as Extract<ClusterObject, { kind: 'ClusterNetworkPolicy' }>;
  return kind === 'ClusterNetworkPolicy' ? 1 + (spec.ingress?.length ?? 0) + (spec.egress?.length ?? 0) : 1;
}

/** The other end: calls `answer` with each question, and the objects as they were then. */
export function serveObjects<Question extends object, Answer extends object>(
  answer: (question: Question, objects: ClusterObjects, send: (answer: Answer) => void) => void,
): void {
  const interned: Interned = new Map();
  const share = (object: object): object => internObject(object as ClusterObject, interned);
  serveMirrored(NO_OBJECTS, answer, share);
}
