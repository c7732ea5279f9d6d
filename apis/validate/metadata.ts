import { asFields, type FieldMap } from '../schema/json-schema.ts';
import { isSubdomain, SUBDOMAIN_FORM } from './names.ts';
import { suggestion } from './nearest.ts';
import type { Findings } from './problem.ts';
import { show } from './problem.ts';

/** The fields of meta/v1 ObjectMeta. */
const FIELDS: readonly string[] = [
  'name',
  'labels',
  'annotations',
  'namespace',
  'uid',
  'generation',
  'generateName',
  'resourceVersion',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'finalizers',
  'managedFields',
  'ownerReferences',
  'selfLink',
];

/**
 * Checks the metadata of an object of one of our kinds. If metadata is not an object, only the
 * missing name is reported here.
 */
export function checkMetadata(
  raw: FieldMap,
  found: Findings,
  scope: 'Cluster' | 'Namespaced' = 'Cluster',
): void {
  const metadata = asFields(raw.metadata) ?? {};
  const { name } = metadata;
  if (name === undefined || name === null || name === '')
    found.error(['metadata', 'name'], 'is missing; every object needs a name');
  else if (typeof name !== 'string')
    found.error(['metadata', 'name'], `must be text, not ${show(name)}; put it in quotes`);
  else if (!isSubdomain(name))
    found.error(['metadata', 'name'], `${show(name)} is not a valid name: ${SUBDOMAIN_FORM}`);
  for (const field of Object.keys(metadata)) {
    if (FIELDS.includes(field)) continue;
    found.error(['metadata', field], `unknown field${suggestion(field, FIELDS)}`);
  }
  if (scope === 'Namespaced') return;
  if (metadata.namespace !== undefined && metadata.namespace !== null && metadata.namespace !== '') {
    found.warning(['metadata', 'namespace'], 'is ignored: the object is cluster-scoped');
  }
}

/** Name, uid and generation of an object whose metadata passed the checks. */
export function toIdentity(raw: FieldMap): { name: string; uid: string; generation: number } {
  const { name, uid, generation } = asFields(raw.metadata) ?? {};
  return {
    name: typeof name === 'string' ? name : '',
    uid: typeof uid === 'string' ? uid : '',
    generation: typeof generation === 'number' ? generation : 0,
  };
}

/** The age of a valid object; nothing in manifests, which have no creationTimestamp. */
export function toCreated(raw: FieldMap): { readonly created?: string } {
  const { creationTimestamp: created } = asFields(raw.metadata) ?? {};
  return typeof created === 'string' ? { created } : {};
}
