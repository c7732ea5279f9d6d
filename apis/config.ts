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

/** What enforces the rules of a node. */
export type DataplaneName = 'nftables' | 'iptables';
/** Whose commands iptables is driven by; auto is the system's own `iptables`. */
export type IptablesVariant = 'auto' | 'nft' | 'legacy';

export const NAMED_PEERS = ['nodes', 'controllers', 'any'] as const;
export type FailsafePeers = (typeof NAMED_PEERS)[number] | readonly string[];

/** Traffic that a blanket Drop or Reject never closes. */
export interface FailsafeEntry {
  readonly protocol: 'tcp' | 'udp' | 'sctp';
  /** Inclusive; [0, 65535] where the entry names no port: every port. */
  readonly ports: readonly [first: number, last: number];
  /**
   * `nodes`: the addresses that `nodeSelector: {}` stands for. `controllers`: those of nodewall's
   * own pods. Else CIDRs.
   */
  readonly peers: FailsafePeers;
  /**
   * The same holds of each port that the API server is known to have (NodeState.apiServerPorts).
   */
  readonly apiServer?: true;
}

/** What of the traffic from pods is given the node's address on its way out. */
export interface Masquerade {
  readonly enabled: boolean;
  /** Destinations (CIDRs, both families) that see the pods' own addresses. */
  readonly except: readonly string[];
}

/** How fqdn peers are resolved. All times in seconds. */
export interface NamesConfig {
  /** Addresses of DNS servers, with a port where it isn't 53; empty: those of /etc/resolv.conf. */
  readonly servers: readonly string[];
  /** An answer is asked for again after its TTL, but neither earlier nor later than this. */
  readonly minimumTTL: number;
  readonly maximumTTL: number;
  /**
   * An address stays at least so long after it was last in an answer: connections to it may still
   * be made.
   */
  readonly keep: number;
  /** The last addresses of a name that doesn't resolve any more stay so long. */
  readonly stale: number;
  /** Whether the DNS answers that the node receives are read too; wildcards need it. */
  readonly learn: boolean;
  /**
   * Only answers from these (CIDRs) are read; empty is any. Where destination NAT leads to the
   * server, it is the address behind it.
   */
  readonly learnFrom: readonly string[];
  /** NFLOG group that the copies of DNS answers come by. */
  readonly group: number;
}

/** The record of what was decided. */
export interface LogConfig {
  /** Path of the file, rotated; `stdout`; '' is STATE_DIR/records.jsonl. */
  readonly file: string;
  /** A file is rotated at so many bytes, and so many are kept. */
  readonly maxBytes: number;
  readonly maxFiles: number;
  /**
   * At most so many records a second of one rule, after a burst; 0 is no limit. What is not
   * recorded is counted.
   */
  readonly rate: number;
  readonly burst: number;
  /** NFLOG group that the records come by. */
  readonly group: number;
}

export interface Config {
  readonly exemptions: Readonly<Record<Exemption, boolean>>;
  /** Group name to link group number; `pods` and `clusternet` are always there. */
  readonly interfaceGroups: Readonly<Record<string, number>> & {
    readonly pods: number;
    readonly clusternet: number;
  };
  /**
   * Group name to what makes an interface one of the group, tried in order: a name glob (`cali*`),
   * `kind:veth` (its peer is in another namespace), `kind:bridge` (all of its ports are such), or
   * `cni:NAME` (the names that this CNI gives, see agent/interfaces/presets.ts).
   */
  readonly interfaceMatches: Readonly<Record<string, readonly string[]>>;
  /** The file in which iproute2 and nft look up names of link groups; '' leaves it alone. */
  readonly interfaceGroupFile: string;
  readonly masquerade: Masquerade;
  readonly names: NamesConfig;
  readonly log: LogConfig;
  readonly failsafe: {
    readonly ingress: readonly FailsafeEntry[];
    readonly egress: readonly FailsafeEntry[];
  };
  /**
   * NodeNetworkPolicy: undefined is the default of the way the agent runs (on for manifests, off in
   * a cluster).
   */
  readonly featureGates: { readonly NodeNetworkPolicy?: boolean };
  /** auto: nftables where it works, else iptables. */
  readonly dataplane: DataplaneName | 'auto';
  readonly iptables: { readonly variant: IptablesVariant };
  readonly dispatch: Dispatch;
}

const clusterPorts: readonly FailsafeEntry[] = [
  { protocol: 'tcp', ports: [6443, 6443], peers: 'nodes', apiServer: true },
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
  interfaceMatches: { pods: ['kind:veth', 'kind:bridge', 'cni:*'], clusternet: ['cni:*'] },
  interfaceGroupFile: '/etc/iproute2/group',
  masquerade: { enabled: false, except: [] },
  names: {
    servers: [],
    minimumTTL: 5,
    maximumTTL: 3600,
    keep: 300,
    stale: 86_400,
    learn: true,
    learnFrom: [],
    group: 7412,
  },
  log: { file: '', maxBytes: 10 * 1024 * 1024, maxFiles: 5, rate: 100, burst: 200, group: 7411 },
  failsafe: {
    ingress: [
      ...clusterPorts,
      { protocol: 'tcp', ports: [6443, 6443], peers: 'controllers', apiServer: true },
    ],
    egress: [
      ...clusterPorts,
      { protocol: 'tcp', ports: [8443, 8443], peers: 'controllers' },
      { protocol: 'tcp', ports: [9443, 9443], peers: 'controllers' },
      { protocol: 'tcp', ports: [53, 53], peers: 'any' },
      { protocol: 'udp', ports: [53, 53], peers: 'any' },
    ],
  },
  featureGates: {},
  dataplane: 'nftables',
  iptables: { variant: 'auto' },
  dispatch: 'indexed',
};
