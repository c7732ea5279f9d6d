/** The agent's configuration: what SEMANTICS.md section 5 names, with its defaults in one place. */

export const EXEMPTIONS = [
  'loopback',
  'neighborDiscovery',
  'multicastListener',
  'dhcpClient',
  'localPods',
] as const;
export type Exemption = (typeof EXEMPTIONS)[number];

export type Dispatch = 'indexed' | 'linear';

/** Traffic that a blanket Drop or Reject never closes. */
export interface FailsafeEntry {
  readonly protocol: 'tcp' | 'udp' | 'sctp';
  /** Inclusive; [0, 65535] where the entry names no port: every port. */
  readonly ports: readonly [first: number, last: number];
  /** `nodes`: the addresses that `nodeSelector: {}` stands for. Else CIDRs. */
  readonly peers: 'nodes' | 'any' | readonly string[];
}

export interface Config {
  readonly exemptions: Readonly<Record<Exemption, boolean>>;
  /** Group name to link group number; `pods` and `clusternet` are always there. */
  readonly interfaceGroups: Readonly<Record<string, number>> & {
    readonly pods: number;
    readonly clusternet: number;
  };
  readonly failsafe: {
    readonly ingress: readonly FailsafeEntry[];
    readonly egress: readonly FailsafeEntry[];
  };
  /** NodeNetworkPolicy: undefined is the default of the way the agent runs (on for manifests, off in a cluster). */
  readonly featureGates: { readonly NodeNetworkPolicy?: boolean };
  readonly dataplane: 'nftables';
  readonly dispatch: Dispatch;
}

const clusterPorts: readonly FailsafeEntry[] = [
  { protocol: 'tcp', ports: [6443, 6443], peers: 'nodes' },
  { protocol: 'tcp', ports: [2379, 2380], peers: 'nodes' },
  { protocol: 'tcp', ports: [10250, 10250], peers: 'nodes' },
];

export const DEFAULT_CONFIG: Config = {
  exemptions: {
    loopback: true,
    neighborDiscovery: true,
    multicastListener: true,
    dhcpClient: true,
    localPods: true,
  },
  interfaceGroups: { pods: 8, clusternet: 9 },
  failsafe: {
    ingress: clusterPorts,
    egress: [
      ...clusterPorts,
      { protocol: 'tcp', ports: [53, 53], peers: 'any' },
      { protocol: 'udp', ports: [53, 53], peers: 'any' },
    ],
  },
  featureGates: {},
  dataplane: 'nftables',
  dispatch: 'indexed',
};
