import { DEFAULT_EGRESS_CONFIG } from '../../apis/egress/config.ts';

/** Seconds: a machine with much other work may not let the test send for two. */
const LEASE = 8;

export const ADDRESS = '203.0.113.1';
/** The administrator's gateways, and a policy that needs the floating address. */
export const OWN = `
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {nodeName: worker, containers: [{name: c, image: none}]}
---
apiVersion: nodewall.io/v1alpha1
kind: EgressGateway
metadata: {name: pool}
spec:
  nodeSelector: {matchLabels: {gateway: "true"}}
  addresses: {pools: [{ranges: [${ADDRESS}]}]}
  failover: {leaseSeconds: ${LEASE}}
  allowedNamespaces: {}
---
apiVersion: nodewall.io/v1alpha1
kind: EgressGateway
metadata: {name: nodes}
spec: {nodeSelector: {matchLabels: {gateway: "true"}}, allowedNamespaces: {}}
---
apiVersion: nodewall.io/v1alpha1
kind: EgressPolicy
metadata: {name: web, namespace: shop}
spec: {gateway: pool, appliedTo: [{podSelector: {matchLabels: {app: web}}}]}
`;

export function specOf(index: number): object {
  return { priority: index, appliedTo: [{ podSelector: {} }], gateway: 'nodes', to: networks() };
}

/** As many as each of a tenant's policies may have, if all have the same number. */
export function networks(): string[] {
  const { policies, networks: most } = DEFAULT_EGRESS_CONFIG.namespaceLimits;
  return Array.from({ length: Math.floor(most / policies) }, randomNetwork);
}

export function randomNetwork(): string {
  const one = (most: number): number => Math.floor(Math.random() * most);
  return `${11 + one(80)}.${one(256)}.${one(256)}.0/24`;
}
