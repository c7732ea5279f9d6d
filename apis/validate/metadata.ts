import { isIPv4 } from 'node:net';
import { formatAddress, parseAddress } from '../../lib/net/address.ts';
import { API_GROUPS, type ApiGroup, type ClusterObject, type Labels } from '../objects.ts';
import { asFields, type FieldMap } from '../schema/json-schema.ts';
import { isDnsLabel, isSubdomain, SUBDOMAIN_FORM } from './names.ts';
import { suggestion } from './nearest.ts';
import { type FieldPath, type Findings, show } from './problem.ts';

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
  checkName(metadata.name, isSubdomain, found);
  for (const field of Object.keys(metadata)) {
    if (FIELDS.includes(field)) continue;
    found.error(['metadata', field], `unknown field${suggestion(field, FIELDS)}`);
  }
  if (scope === 'Namespaced') return;
  if (metadata.namespace !== undefined && metadata.namespace !== null && metadata.namespace !== '') {
    found.warning(['metadata', 'namespace'], 'is ignored: the object is cluster-scoped');
  }
}

function checkName(name: unknown, isName: (name: string) => boolean, found: Findings): void {
  const path = ['metadata', 'name'];
  if (name === undefined || name === null || name === '')
    found.error(path, 'is missing; every object needs a name');
  else if (typeof name !== 'string') found.error(path, `must be text, not ${show(name)}; put it in quotes`);
  else if (!isName(name)) found.error(path, `${show(name)} is not a valid name: ${SUBDOMAIN_FORM}`);
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

/**
 * Checks shared by Kubernetes' own kinds. The API server has validated these objects: fields that
 * nodewall does not use are not checked.
 */

/** Adds an address in canonical form; a value that is not an address is left out with a warning. */
export function addAddress(raw: unknown, path: FieldPath, addresses: string[], found: Findings): void {
  if (typeof raw === 'string') {
    const address = isIPv4(raw) ? raw : parseAddress(raw);
    if (address !== null) {
      addresses.push(typeof address === 'string' ? address : formatAddress(address));
      return;
    }
  }
  const what = raw === undefined ? 'is missing' : `${show(raw)} is not an IP address`;
  found.warning(path, `${what}; it is left out`);
}

/**
 * Returns a new array without duplicates. Copied even if nothing changes: V8 reserves room for 17
 * items in an array that was pushed into, and there may be 100,000 pods.
 */
export function unique(addresses: readonly string[]): string[] {
  return addresses.length < 2 ? addresses.slice() : [...new Set(addresses)];
}

/** The object's namespace; `default` if it has none. */
export function readNamespace(raw: FieldMap, found: Findings): string {
  const namespace = asFields(raw.metadata)?.namespace ?? '';
  if (namespace === '') return 'default';
  if (typeof namespace === 'string' && isDnsLabel(namespace)) return namespace;
  found.error(['metadata', 'namespace'], `${show(namespace)} is not a valid name of a Namespace`);
  return '';
}

/** Reads and checks name and labels. */
export function readMetadata(
  raw: FieldMap,
  isName: (name: string) => boolean,
  found: Findings,
): { readonly name: string; readonly labels: Labels } {
  const { name } = fieldsAt(raw, ['metadata'], found);
  checkName(name, isName, found);
  const labels = fieldsAt(raw, ['metadata', 'labels'], found);
  for (const [key, value] of Object.entries(labels)) {
    if (typeof value === 'string') continue;
    found.error(['metadata', 'labels', key], `must be text, not ${show(value)}; put it in quotes`);
  }
  return { name: typeof name === 'string' ? name : '', labels: labels as Labels };
}

/** The fields of an object that may be absent; a value of another type is an error. */
export function fieldsAt(raw: FieldMap, path: readonly string[], found: Findings): FieldMap {
  const value = valueAt(raw, path);
  if (value === undefined || value === null) return {};
  const fields = asFields(value);
  if (fields === null) found.error(path, `must be an object with fields, not ${show(value)}`);
  return fields ?? {};
}

/** A list that may be absent; a value of another type is an error. */
export function listAt(raw: FieldMap, path: readonly string[], found: Findings): readonly unknown[] {
  const value = valueAt(raw, path);
  if (value === undefined || value === null) return [];
  if (Array.isArray(value)) return value;
  found.error(path, `must be a list, not ${show(value)}`);
  return [];
}

function valueAt(raw: FieldMap, path: readonly string[]): unknown {
  let value: unknown = raw;
  for (const field of path) value = asFields(value)?.[field];
  return value;
}

/**
 * The identity of an object: kind, API group, namespace and name. Only one object per identity is
 * in force.
 */
export function identityOf(object: ClusterObject): string {
  const group = 'apiGroup' in object ? object.apiGroup : '';
  const namespace = 'namespace' in object ? object.namespace : '';
  return `${object.kind}|${group}|${namespace}|${object.name}`;
}

/** The name, with the namespace where the kind has one. */
export function displayName(object: ClusterObject): string {
  const namespace = 'namespace' in object ? object.namespace : '';
  return namespace === '' ? object.name : `${namespace}/${object.name}`;
}

const NAMESPACED = ['Pod', 'Service', 'EndpointSlice', 'EgressPolicy'];

interface ClaimedIdentity {
  readonly identity: string;
  readonly kind: string;
  /** Null if it is none of those with policies. */
  readonly apiGroup: ApiGroup | null;
  /** With the namespace, where the kind has one. */
  readonly name: string;
}

/**
 * The identity that a raw object claims, as far as its fields are readable; for objects that were
 * rejected.
 */
export function claimedIdentity(raw: unknown): ClaimedIdentity {
  const fields = asFields(raw) ?? {};
  const { apiVersion, kind, metadata } = fields;
  const { name, namespace } = asFields(metadata) ?? {};
  const text = (value: unknown): string => (typeof value === 'string' ? value : '');
  const apiGroup = API_GROUPS.find((group) => text(apiVersion).split('/', 1)[0] === group) ?? null;
  const inNamespace = NAMESPACED.includes(text(kind)) ? text(namespace) || 'default' : '';
  return {
    identity: `${text(kind)}|${apiGroup ?? ''}|${inNamespace}|${text(name)}`,
    kind: text(kind),
    apiGroup,
    name: inNamespace === '' || text(name) === '' ? text(name) : `${inNamespace}/${text(name)}`,
  };
}
