/**
 * The networks of pods that a cluster can have, and the files of the CNI plugins that make them.
 */
import type { NodeAddresses } from './network.ts';

/** How pods reach nodes: with their own address, or with their node's. */
type PodTraffic = 'routed' | 'masqueraded';

interface PodNetworkKind {
  /** The CNI plugin that makes a pod's interface. */
  readonly plugin: 'bridge' | 'ptp';
  /** Masquerading by that plugin; a carrier may have its own. */
  readonly traffic: PodTraffic;
  /** The way of pods' packets to other nodes: routes that are always there, or a program. */
  readonly between: 'routes' | CarrierName;
  /** The addresses of pods that nodes of the cluster see. */
  readonly seenAs: 'pod' | 'node';
}

/** The programs that carry packets of pods between nodes (carrier.ts). */
export type CarrierName = 'flannel-vxlan' | 'flannel-host-gw';

export const POD_NETWORKS = {
  bridge: { plugin: 'bridge', traffic: 'routed', between: 'routes', seenAs: 'pod' },
  'bridge-masqueraded': { plugin: 'bridge', traffic: 'masqueraded', between: 'routes', seenAs: 'node' },
  ptp: { plugin: 'ptp', traffic: 'routed', between: 'routes', seenAs: 'pod' },
  'ptp-masqueraded': { plugin: 'ptp', traffic: 'masqueraded', between: 'routes', seenAs: 'node' },
  // flanneld masquerades what pods send to others than pods: nodes see each other's.
  'flannel-vxlan': { plugin: 'bridge', traffic: 'routed', between: 'flannel-vxlan', seenAs: 'node' },
  'flannel-host-gw': { plugin: 'bridge', traffic: 'routed', between: 'flannel-host-gw', seenAs: 'node' },
} as const satisfies Readonly<Record<string, PodNetworkKind>>;

export type PodNetworkName = keyof typeof POD_NETWORKS;

const isPodNetwork = (name: string): name is PodNetworkName => Object.hasOwn(POD_NETWORKS, name);

/** NODEWALL_POD_NETWORK, or bridges and routes. Throws where it is not known. */
export function chosenPodNetwork(environment: NodeJS.ProcessEnv = process.env): PodNetworkName {
  const wanted = environment.NODEWALL_POD_NETWORK || 'bridge';
  if (isPodNetwork(wanted)) return wanted;
  const known = Object.keys(POD_NETWORKS).join(', ');
  throw new Error(`NODEWALL_POD_NETWORK=${wanted}: not known here; known are ${known}`);
}

/** kube-proxy's modes; ipvs needs CONFIG_IP_VS. */
const PROXY_MODES = ['nftables', 'iptables'] as const;
type ProxyMode = (typeof PROXY_MODES)[number];
/** Without any, nodewall's own installation needs an overlay (docs/platforms.md). */
export type ServiceProxy = ProxyMode | 'none';

/** NODEWALL_PROXY_MODE, or nftables. Throws where it is not known. */
export function chosenProxyMode(environment: NodeJS.ProcessEnv = process.env): ProxyMode {
  const wanted = environment.NODEWALL_PROXY_MODE || 'nftables';
  const mode = PROXY_MODES.find((one) => one === wanted);
  if (mode !== undefined) return mode;
  throw new Error(`NODEWALL_PROXY_MODE=${wanted}: not known here; known are ${PROXY_MODES.join(', ')}`);
}

/** A change of the CNI plugins that make a pod's interface. */
export interface PodInterfaces {
  readonly traffic: PodTraffic;
  /** CNI plugins after those of the network. */
  readonly plugins?: readonly object[];
  /** The interfaces' MTU; the kernel's default where it is absent. */
  readonly mtu?: number;
}

/** A CNI network configuration list, with host ports as installers have them. */
export function cniConfiguration(
  { podCidrs }: NodeAddresses,
  name: PodNetworkName,
  { traffic, plugins = [], mtu }: PodInterfaces,
): object {
  const { plugin } = POD_NETWORKS[name];
  const ipam = { type: 'host-local', dataDir: '/run/cni', ranges: podCidrs.map((subnet) => [{ subnet }]) };
  const both = { type: plugin, ipMasq: traffic === 'masqueraded', ...(mtu === undefined ? {} : { mtu }) };
  const first = {
    bridge: {
      ...both,
      bridge: 'cni0',
      isGateway: true,
      isDefaultGateway: true,
      hairpinMode: true,
      ipam,
    },
    ptp: { ...both, ipam: { ...ipam, routes: [{ dst: '0.0.0.0/0' }, { dst: '::/0' }] } },
  }[plugin];
  const hostPorts = { type: 'portmap', capabilities: { portMappings: true } };
  return { cniVersion: '1.0.0', name: 'pods', plugins: [first, hostPorts, ...plugins] };
}
