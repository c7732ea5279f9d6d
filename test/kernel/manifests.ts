/** Kubernetes objects as the kernel tests write them. */
import type { AddressPlan } from '../netns/topology.ts';

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

/** Sets of both kinds, single ports, ranges, both directions. */
export function variousRules(): object {
  const hosts = Array.from({ length: 8 }, (_, i) => cidr(`192.0.2.${i * 3 + 1}/32`));
  const nets = Array.from({ length: 8 }, (_, i) => cidr(`10.${i * 3 + 1}.0.0/${16 + i}`));
  return policy('various', {
    ingress: [
      { name: 'hosts', action: 'Allow', from: hosts, ports: [tcp(22), tcp(4321)] },
      { name: 'nets', action: 'Reject', from: nets, ports: [tcp(1000, 2000), udp(53)] },
      {
        name: 'v6',
        action: 'Drop',
        from: [cidr('2001:db8::/48'), cidr('2001:db8:1::1/128')],
        ports: [udp(53)],
      },
      { name: 'deny', action: 'Drop', ports: [tcp(22)] },
    ],
    egress: [{ name: 'out', action: 'Drop', to: nets, ports: [tcp(25)] }],
  });
}
