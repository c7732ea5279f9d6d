import type {
  ClusterGroup,
  ClusterNetworkPolicy,
  ClusterObjects,
  Guardrail,
  Tier,
} from '../../apis/objects.ts';
import { identityOf } from '../../apis/validate/identity.ts';

export type ChangedObject = ClusterNetworkPolicy | ClusterGroup | Tier | Guardrail;

/** One object is replaced or added; without `next` it is removed. */
export interface ObjectChange {
  readonly kind: ChangedObject['kind'];
  readonly identity: string;
  readonly next: ChangedObject | null;
}

const LISTS = {
  ClusterNetworkPolicy: 'policies',
  ClusterGroup: 'groups',
  Tier: 'tiers',
  Guardrail: 'guardrails',
} as const satisfies Record<ChangedObject['kind'], keyof ClusterObjects>;

export function changedObjects(
  objects: ClusterObjects,
  { kind, identity, next }: ObjectChange,
): ClusterObjects {
  const list = LISTS[kind];
  const others = (objects[list] as readonly ChangedObject[]).filter((one) => identityOf(one) !== identity);
  return { ...objects, [list]: next === null ? others : [...others, next] };
}
