/**
 * The agent's configuration (docs/semantics.md section 5, docs/configuration.md), with all defaults
 * in one place.
 */
import { CONTROLLER_PORT, WEBHOOK_PORT } from './control-plane.ts';
import { DEFAULT_EGRESS_CONFIG, type EgressConfig } from './egress/config.ts';
import type { RolloutSettings } from './rollout.ts';

/** The exemptions of docs/semantics.md section 2.1. */
export const EXEMPTIONS = [
  'loopback',
  'neighborDiscovery',
  'multicastListener',
  'dhcpClient',
  'localPods',
  'egressTunnel',
] as const;
export type Exemption = (typeof EXEMPTIONS)[number];

/** How rules are found: by the rule index, or one after another. */
export type DispatchMode = 'indexed' | 'linear';

/** Which iptables commands to use; auto: the system's own `iptables`. */
type IptablesVariant = 'auto' | 'nft' | 'legacy';

/** Named peers of the failsafe list, see FailsafeEntry.peers. */
export const NAMED_PEERS = ['nodes', 'controllers', 'any'] as const;
export type FailsafePeers = (typeof NAMED_PEERS)[number] | readonly string[];

/** Traffic that a Drop or Reject rule without ports never closes. */
export interface FailsafeEntry {
  /** By name one that has ports; by number another one (of the platform's entries alone). */
  readonly protocol: 'tcp' | 'udp' | 'sctp' | number;
  /** Inclusive; [0, 65535] (every port) if the entry names no port. */
  readonly ports: readonly [first: number, last: number];
  /**
   * `nodes`: the addresses of the peer `nodeSelector: {}`. `controllers`: those of nodewall's own
   * controller pods. Otherwise CIDRs.
   */
  readonly peers: FailsafePeers;
  /** The entry also applies to each port in NodeState.apiServerPorts. */
  readonly apiServer?: true;
}

/** Which traffic from pods gets the node's address as its source when it leaves the node. */
interface Masquerade {
  readonly enabled: boolean;
  /** Destinations (CIDRs, both families) that see the pods' own addresses. */
  readonly except: readonly string[];
}

/** How fqdn peers are resolved. All times are in seconds. */
export interface NamesConfig {
  /** Addresses of DNS servers, with a port if it is not 53. Empty: those of /etc/resolv.conf. */
  readonly servers: readonly string[];
  /**
   * A name is resolved again after its answer's TTL, but not before minimumTTL nor after
   * maximumTTL.
   */
  readonly minimumTTL: number;
  readonly maximumTTL: number;
  /**
   * How long an address stays, at least, after the last answer that contained it: clients may still
   * connect to it.
   */
  readonly keep: number;
  /** How long the last addresses of a name stay after it stopped resolving. */
  readonly stale: number;
  /** Whether the agent also reads the DNS answers that the node receives; wildcards need it. */
  readonly learn: boolean;
  /**
   * Read only answers from these servers (CIDRs), by the address that was asked, before any
   * destination NAT; empty: those of `servers` and of the node's resolver configuration.
   */
  readonly learnFrom: readonly string[];
  /** NFLOG group by which the kernel passes copies of DNS answers. */
  readonly group: number;
}

/** The flow log. */
export interface LogConfig {
  /** Path of the file, which is rotated; `stdout`; or '' for STATE_DIR/records.jsonl. */
  readonly file: string;
  /** Size in bytes at which a file is rotated, and the number of files that are kept. */
  readonly maxBytes: number;
  readonly maxFiles: number;
  /**
   * Limit of records per second and rule, after a burst; 0: no limit. Connections beyond it are
   * counted, not recorded.
   */
  readonly rate: number;
  readonly burst: number;
  /** NFLOG group by which the kernel passes the packets to record. */
  readonly group: number;
  /** Whether a gateway records each connection that leaves by it, in a file of its own. */
  readonly egressConnections: boolean;
}

/**
 * Guarded apply: a change that denies more is tried first (docs/guarded-apply.md). Times in
 * seconds.
 */
export interface GuardConfig {
  /** Undefined: the default of the agent's mode (on in a cluster, off with manifests). */
  readonly enabled?: boolean;
  /** How long a change is tried, at least, before it is confirmed. */
  readonly window: number;
  /** How long a probe fails before the change is rolled back. */
  readonly failAfter: number;
  /** Besides those of API server, controller and DNS. */
  readonly probes: readonly ProbeConfig[];
  readonly inward: readonly InwardProbeConfig[];
  /**
   * Manual: `nodewall confirm` ends the window; without it the change is rolled back after
   * `timeout`.
   */
  readonly confirm: 'Automatic' | 'Manual';
  readonly timeout: number;
}

/** A connection from the node that must stay possible. */
export interface ProbeConfig {
  readonly name: string;
  readonly target: ProbeTarget;
}

export type ProbeTarget =
  | { readonly kind: 'tcp' | 'udp'; readonly address: string; readonly port: number }
  | { readonly kind: 'http'; readonly url: string; readonly address: string; readonly port: number }
  /** An echo request. */
  | { readonly kind: 'icmp'; readonly address: string };

/** A connection to the node that must stay possible: others make it (apis/probes.ts). */
export interface InwardProbeConfig {
  readonly name: string;
  /** One other agent, or the controller that leads. */
  readonly from: 'peer' | 'controller';
  /** To the Node's first address, or the first one of this family. */
  readonly family: 4 | 6 | null;
  readonly target: InwardTarget;
}

export type InwardTarget =
  | { readonly kind: 'tcp' | 'udp'; readonly port: number }
  /** The host of the URL stands for the address. */
  | { readonly kind: 'http'; readonly url: string; readonly port: number }
  | { readonly kind: 'icmp' };

/** Whether the agent learns from the answers of any DNS server, of one family at least. */
export function believesAnyServer({ learn, learnFrom }: NamesConfig): boolean {
  return learn && learnFrom.some((cidr) => cidr.endsWith('/0'));
}

export interface Config {
  readonly exemptions: Readonly<Record<Exemption, boolean>>;
  /** Whether packets that pretend to come from a Node are dropped before the exemptions. */
  readonly antiSpoofing: boolean;
  /**
   * Group name to link group number; `pods` and `clusternet` always exist, `egress` (the tunnel of
   * egress gateways) where the feature gate is on.
   */
  readonly interfaceGroups: Readonly<Record<string, number>> & {
    readonly pods: number;
    readonly clusternet: number;
    readonly egress?: number;
  };
  /**
   * Group name to the patterns that put an interface into the group, tried in order: a name glob
   * (`cali*`), `kind:veth` (its peer is in another namespace), `kind:bridge` (all its ports are
   * such veths), or `cni:NAME` (the interface names of this CNI, see agent/interfaces/classify.ts).
   */
  readonly interfaceMatches: Readonly<Record<string, readonly string[]>>;
  /** The file in which iproute2 and nft look up names of link groups; '': do not touch it. */
  readonly interfaceGroupFile: string;
  readonly masquerade: Masquerade;
  readonly names: NamesConfig;
  readonly log: LogConfig;
  /** Which kinds of flows there were in the last 7 days (docs/flows.md). */
  readonly flowInventory: { readonly enabled: boolean };
  readonly failsafe: {
    readonly ingress: readonly FailsafeEntry[];
    readonly egress: readonly FailsafeEntry[];
  };
  /** Whether both lists also have what the Node needs to carry pods (apis/platform.ts). */
  readonly sparesPlatform: boolean;
  /**
   * The kubelet's kubeconfig, whose server is on the failsafe list in a cluster; '': the usual
   * places.
   */
  readonly kubeletKubeconfig: string;
  /**
   * The networks of the Nodes: an address of a Node outside of them counts nowhere. Empty: every
   * address counts.
   */
  readonly nodeCIDRs: readonly string[];
  /**
   * The Services (NAMESPACE/NAME) whose endpoints count for toServices though no pod of their
   * namespace has the address.
   */
  readonly endpointsWithoutPods: readonly string[];
  /**
   * NodeNetworkPolicy; undefined: the default of the agent's mode (on with manifests, off in a
   * cluster). EgressGateway; undefined: off.
   */
  readonly featureGates: { readonly NodeNetworkPolicy?: boolean; readonly EgressGateway?: boolean };
  readonly egress: EgressConfig;
  readonly guard: GuardConfig;
  /** auto: nftables if it works, else iptables. */
  readonly dataplane: DataplaneName | 'auto';
  readonly iptables: { readonly variant: IptablesVariant };
  readonly dispatch: DispatchMode;
  /**
   * Read by controllers: the rollout of policies without spec.rollout; null: they go to all nodes
   * at once.
   */
  readonly rollout: RolloutSettings | null;
  /**
   * Read by controllers: whether they write the statuses of policies of crd.antrea.io where no
   * controller of Antrea runs.
   */
  readonly antreaStatus: boolean;
  /**
   * Read by controllers: the key of the taint that they remove from a Node once it enforces; '':
   * none.
   */
  readonly startupTaint: string;
  readonly boot: BootConfig;
  readonly controllerPorts: ControllerPorts;
  /** Read by controllers. */
  readonly leaderElection: LeaderElectionTimes;
}

/** At which ports the pods of controllers serve; both may be the same. */
export interface ControllerPorts {
  /** Agents, the aggregated API and other controllers. */
  readonly agents: number;
  readonly webhook: number;
}

/** How the controllers agree by a Lease on the one that leads; whole seconds. */
interface LeaderElectionTimes {
  /** No other controller takes the Lease for so long after it has seen it change. */
  readonly leaseDuration: number;
  /** A leader that cannot renew it ceases to lead after so long; less than `leaseDuration`. */
  readonly renewDeadline: number;
  /** Between two attempts; less than `renewDeadline`. */
  readonly retryPeriod: number;
}

/** The files that are loaded at boot, before an agent runs. */
interface BootConfig {
  readonly enabled: boolean;
  /** The rules in force if they cannot be loaded: next to nothing is let in, or everything. */
  readonly onError: 'minimal' | 'open';
  /** CIDRs from which `minimal` lets SSH in. */
  readonly ssh: readonly string[];
}

const clusterPorts: readonly FailsafeEntry[] = [
  { protocol: 'tcp', ports: [6443, 6443], peers: 'nodes', apiServer: true },
  { protocol: 'tcp', ports: [2379, 2380], peers: 'nodes' },
  { protocol: 'tcp', ports: [10250, 10250], peers: 'nodes' },
];

const controllerPorts: ControllerPorts = { agents: CONTROLLER_PORT, webhook: WEBHOOK_PORT };

/** The failsafe list of egress where the configuration has none. */
export function defaultEgressFailsafe(ports: ControllerPorts): readonly FailsafeEntry[] {
  const ofControllers = [...new Set([ports.agents, ports.webhook])];
  return [
    ...clusterPorts,
    ...ofControllers.map(
      (port): FailsafeEntry => ({ protocol: 'tcp', ports: [port, port], peers: 'controllers' }),
    ),
    { protocol: 'tcp', ports: [53, 53], peers: 'any' },
    { protocol: 'udp', ports: [53, 53], peers: 'any' },
  ];
}

export const DEFAULT_CONFIG: Config = {
  exemptions: {
    loopback: true,
    neighborDiscovery: true,
    multicastListener: true,
    dhcpClient: true,
    localPods: true,
    egressTunnel: true,
  },
  antiSpoofing: true,
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
  log: {
    file: '',
    maxBytes: 10 * 1024 * 1024,
    maxFiles: 5,
    rate: 100,
    burst: 200,
    group: 7411,
    egressConnections: false,
  },
  flowInventory: { enabled: true },
  failsafe: {
    ingress: [
      ...clusterPorts,
      { protocol: 'tcp', ports: [6443, 6443], peers: 'controllers', apiServer: true },
    ],
    egress: defaultEgressFailsafe(controllerPorts),
  },
  sparesPlatform: true,
  kubeletKubeconfig: '',
  nodeCIDRs: [],
  endpointsWithoutPods: [],
  featureGates: {},
  egress: DEFAULT_EGRESS_CONFIG,
  guard: { window: 10, failAfter: 15, probes: [], inward: [], confirm: 'Automatic', timeout: 600 },
  dataplane: 'nftables',
  iptables: { variant: 'auto' },
  dispatch: 'indexed',
  rollout: null,
  antreaStatus: true,
  startupTaint: '',
  boot: { enabled: true, onError: 'minimal', ssh: [] },
  controllerPorts,
  leaderElection: { leaseDuration: 15, renewDeadline: 10, retryPeriod: 2 },
};

/**
 * The kernel mechanisms that enforce the rules of a node, in the order in which `auto` tries them,
 * with the highest `log.rate` and `log.burst` of each; null: no limit. The rest of each is in
 * agent/dataplane.
 */
export const DATAPLANE_LIMITS = {
  nftables: null,
  // The smallest interval of xt_limit is 1/10000 s, and its burst has the same bound
  // (XT_LIMIT_SCALE, linux/netfilter/xt_limit.h).
  iptables: 10_000,
} as const;

export type DataplaneName = keyof typeof DATAPLANE_LIMITS;

export const DATAPLANE_NAMES = Object.keys(DATAPLANE_LIMITS) as readonly DataplaneName[];

/** Link group of the tunnel's device, unless the configuration names another number. */
export const DEFAULT_EGRESS_GROUP = 10;

/**
 * The configuration with the link group `egress`, if the feature gate is on. Without it where the
 * configuration gives the number to another group.
 */
export function withEgressGroup(config: Config): Config {
  const { featureGates, interfaceGroups } = config;
  if (featureGates.EgressGateway !== true || interfaceGroups.egress !== undefined) return config;
  if (Object.values(interfaceGroups).includes(DEFAULT_EGRESS_GROUP)) return config;
  return { ...config, interfaceGroups: { ...interfaceGroups, egress: DEFAULT_EGRESS_GROUP } };
}
