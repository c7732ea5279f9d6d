/** A network interface, as of one message of the kernel. */
export interface Link {
  /**
   * Its number in the network namespace, from 1; not used again soon, but kept when the link is
   * renamed.
   */
  index: number;
  name: string;
  /** IFLA_INFO_KIND ('veth', 'bridge', 'vxlan', 'wireguard' ...); null for hardware and lo. */
  kind: string | null;
  /** IFLA_GROUP; 0 unless somebody set it. */
  group: number;
  /** IFLA_MASTER: index of the bridge (or bond ...) it is a port of, else null. */
  master: number | null;
  /** IFLA_LINK: index of the peer (veth) or of the lower device (vlan, macvlan ...), else null. */
  peer: number | null;
  /**
   * IFLA_LINK_NETNSID: id of the namespace `peer` is in, where that is another one; null when it is
   * this one.
   */
  peerNamespace: number | null;
  isLoopback: boolean;
  /** IFF_UP: somebody set it up. Says nothing of a carrier. */
  isUp: boolean;
}
