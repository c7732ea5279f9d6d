import { API_GROUPS, type ApiGroup, type ClusterObject } from '../objects.ts';
import { asFields } from '../schema/json-schema.ts';

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

export interface ClaimedIdentity {
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
