/**
 * The ingress half of a policy, for NodePort traffic, of which few are drawn; other objects as they
 * are.
 */
export function ofNodePort(object: object): object {
  const { apiVersion = '', kind, spec } = object as Partial<Policy>;
  const isOurs = kind === 'ClusterNetworkPolicy' && apiVersion.startsWith('nodewall.io/');
  if (!isOurs || (spec?.ingress ?? []).length === 0) return object;
  const { egress: _, ...rest } = spec ?? {};
  return { ...object, spec: { ...rest, traffic: 'NodePort' } };
}

interface Policy {
  readonly apiVersion: string;
  readonly kind: string;
  readonly spec: { readonly ingress?: readonly object[]; readonly egress?: readonly object[] };
}
