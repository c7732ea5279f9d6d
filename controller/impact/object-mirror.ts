import {
  type ClusterGroup,
  type ClusterNetworkPolicy,
  type ClusterObject,
  type ClusterObjects,
  type Guardrail,
  NO_OBJECTS,
  type Tier,
} from '../../apis/objects.ts';
import { checkGroups } from '../../apis/validate/groups.ts';
import { identityOf } from '../../apis/validate/metadata.ts';
import { type Named, referenceCheck, referencesOf } from '../../apis/validate/references.ts';
import {
  MirroredProcess,
  type MirroredProcessOptions,
  type NamedChange,
  serveMirrored,
} from '../../lib/process/mirrored-process.ts';
import { listChange } from '../../lib/sharing/lists.ts';
import { type Interned, internObject } from '../watch/content.ts';
import type { WaitingObject } from '../watch/source.ts';

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

type ChangedObject = ClusterNetworkPolicy | ClusterGroup | Tier | Guardrail;

/** One object is replaced or added; without `next` it is removed. */
export interface ObjectChange {
  readonly kind: ChangedObject['kind'];
  readonly identity: string;
  readonly next: ChangedObject | null;
  /** Objects that waited for it, and are in force with it; absent: none. */
  readonly following?: readonly ChangedObject[];
}

const LIST_OF = {
  ClusterNetworkPolicy: 'policies',
  ClusterGroup: 'groups',
  Tier: 'tiers',
  Guardrail: 'guardrails',
} as const satisfies Record<ChangedObject['kind'], keyof ClusterObjects>;

export function changedObjects(
  objects: ClusterObjects,
  { kind, identity, next, following = [] }: ObjectChange,
): ClusterObjects {
  return following.reduce(
    (changed, one) => replaced(changed, { kind: one.kind, identity: identityOf(one), next: one }),
    replaced(objects, { kind, identity, next }),
  );
}

/** The change with the objects that have waited for it, and in turn for these. */
export function withFollowing(
  objects: ClusterObjects,
  change: ObjectChange,
  {
    waiting,
    gone = NOTHING,
  }: { readonly waiting: readonly WaitingObject[]; readonly gone?: ReadonlySet<string> },
  interfaceGroups: readonly string[],
): ObjectChange {
  const { kind, next } = change;
  if (waiting.length === 0 || next === null || (kind !== 'Tier' && kind !== 'ClusterGroup')) return change;
  const following = new Set<WaitingObject>();
  for (;;) {
    const after = changedObjects(objects, { ...change, following: [...following] });
    const there = new Set([change.identity, ...Array.from(following, identityOf)]);
    const exists = (one: Tier | ClusterGroup): boolean =>
      there.has(identityOf(one)) || !gone.has(identityOf(one));
    const [tiers, groups] = [after.tiers.filter(exists), after.groups.filter(exists)];
    const left = waiting.filter((one) => !following.has(one));
    const ready = usable(left, { tiers, groups, interfaceGroups, invalid: NOTHING });
    if (ready.length === 0) return following.size === 0 ? change : { ...change, following: [...following] };
    for (const one of ready) following.add(one);
  }
}

const NOTHING: ReadonlySet<string> = new Set();

/** The objects of which all that they name is there. */
function usable(waiting: readonly WaitingObject[], named: Named): readonly WaitingObject[] {
  const check = referenceCheck(named);
  const complete = waiting.filter((object) =>
    referencesOf(object).every((reference) => check(reference, object.apiGroup) === null),
  );
  const groups = complete.filter((object): object is ClusterGroup => object.kind === 'ClusterGroup');
  if (groups.length === 0) return complete;
  const wrong = new Set<object>(checkGroups([...named.groups, ...groups]).map(({ object }) => object));
  return complete.filter((object) => !wrong.has(object));
}

function replaced(
  objects: ClusterObjects,
  { kind, identity, next }: Omit<ObjectChange, 'following'>,
): ClusterObjects {
  const list = LIST_OF[kind];
  const others = (objects[list] as readonly ChangedObject[]).filter((one) => identityOf(one) !== identity);
  return { ...objects, [list]: next === null ? others : [...others, next] };
}
