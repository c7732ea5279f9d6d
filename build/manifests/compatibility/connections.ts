/** The clusters of test/realcluster/connections.long.ts: networks of pods, proxies, dataplanes. */
import type { PodNetworkName, ServiceProxy } from '../../cluster/pod-network.ts';

export interface ConnectionCombination {
  readonly network: PodNetworkName;
  /** The Services' proxy. */
  readonly proxy: ServiceProxy;
  /** nodewall's. */
  readonly dataplane: 'nftables' | 'iptables';
}

const combination = (
  network: PodNetworkName,
  proxy: ServiceProxy,
  dataplane: ConnectionCombination['dataplane'],
): ConnectionCombination => ({ network, proxy, dataplane });

/** Each network beside both modes of kube-proxy, and each of these beside both dataplanes. */
export const CONNECTION_COMBINATIONS: readonly ConnectionCombination[] = [
  combination('bridge', 'nftables', 'nftables'),
  combination('bridge', 'iptables', 'iptables'),
  combination('bridge-masqueraded', 'nftables', 'iptables'),
  combination('bridge-masqueraded', 'iptables', 'nftables'),
  combination('ptp', 'nftables', 'nftables'),
  combination('ptp', 'iptables', 'iptables'),
  combination('ptp-masqueraded', 'iptables', 'nftables'),
  combination('flannel-vxlan', 'nftables', 'nftables'),
  combination('flannel-vxlan', 'iptables', 'iptables'),
  combination('flannel-host-gw', 'nftables', 'iptables'),
  combination('flannel-host-gw', 'iptables', 'nftables'),
  combination('bridge', 'none', 'nftables'),
  combination('ptp', 'none', 'iptables'),
];
