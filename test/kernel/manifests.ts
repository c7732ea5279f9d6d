/** Kubernetes objects as the kernel tests write them. */
import type { AddressPlan } from '../netns/address-plan.ts';

/** The Node that the namespace plays. */
export const NODE_NAME = 'node-0';

export interface Rule {
  readonly name?: string;
  readonly action: 'Allow' | 'Drop' | 'Reject' | 'Pass';
  readonly from?: readonly object[];
  readonly to?: readonly object[];
  readonly toServices?: readonly object[];
  readonly ports?: readonly object[];
  readonly protocols?: readonly object[];
  readonly enableLogging?: boolean;
}

export interface PolicyOptions {
  /** Default: every Node. */
  readonly appliedTo?: readonly object[];
  readonly priority?: number;
  readonly tier?: string;
  readonly mode?: 'Enforce' | 'Audit';
  readonly traffic?: 'Host' | 'NodePort';
  readonly established?: 'Keep' | 'Recheck';
  readonly ingress?: readonly Rule[];
  readonly egress?: readonly Rule[];
}

/** A ClusterNetworkPolicy; priority 5 unless said. */
export function policy(name: string, { priority = 5, ...rest }: PolicyOptions): object {
  return {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'ClusterNetworkPolicy',
    metadata: { name },
    spec: { priority, appliedTo: [{ nodeSelector: {} }], ...rest },
  };
}

export function node(plan: AddressPlan): object {
  const addresses = plan.nodeAddresses.flatMap(({ v4, v6 }) => [v4, v6]);
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: NODE_NAME, labels: { 'kubernetes.io/hostname': NODE_NAME } },
    status: { addresses: addresses.map((address) => ({ type: 'InternalIP', address })) },
  };
}

export function tcp(port: number, endPort?: number): object {
  return endPort === undefined ? { protocol: 'TCP', port } : { protocol: 'TCP', port, endPort };
}

export function udp(port: number, endPort?: number): object {
  return endPort === undefined ? { protocol: 'UDP', port } : { protocol: 'UDP', port, endPort };
}

export function cidr(text: string): object {
  return { ipBlock: { cidr: text } };
}
