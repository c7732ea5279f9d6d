import { API_GROUPS, type ClusterObject } from '../objects.ts';
import { asFields } from '../schema/json-schema.ts';

/**
 * What tells one object from another: kind, API group, namespace, name. One object may be in force
 * for each.
 */
export function identityOf(object: ClusterObject): string {
  const group = 'apiGroup' in object ? object.apiGroup : '';
  const namespace = 'namespace' in object ? object.namespace : '';
  return `${object.kind}|${group}|${namespace}|${object.name}`;
}

const NAMESPACED = ['Pod', 'Service', 'EndpointSlice'];

/** The identity that a raw object claims, as far as it can be told; for one that was rejected. */
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
