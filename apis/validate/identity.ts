import { API_GROUPS, type ClusterObject } from '../objects.ts';
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

const NAMESPACED = ['Pod', 'Service', 'EndpointSlice'];

/**
 * The identity that a raw object claims, as far as its fields are readable; for objects that were
 * rejected.
 */
export function claimedIdentity(raw: unknown): { identity: string; kind: string; name: string } {
  const { apiVersion, kind, metadata } = asFields(raw) ?? {};
  const { name, namespace } = asFields(metadata) ?? {};
  const text = (value: unknown): string => (typeof value === 'string' ? value : '');
  const group = API_GROUPS.find((name) => text(apiVersion).startsWith(`${name}/`)) ?? '';
  const inNamespace = NAMESPACED.includes(text(kind)) ? text(namespace) || 'default' : '';
  return {
    identity: `${text(kind)}|${group}|${inNamespace}|${text(name)}`,
    kind: text(kind),
    name: inNamespace === '' || text(name) === '' ? text(name) : `${inNamespace}/${text(name)}`,
  };
}
