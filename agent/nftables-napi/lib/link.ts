/** A network interface, as of one message of the kernel. */
export interface Link {
  /**
   * Its number in the network namespace, from 1; not reused soon, and kept when the link is
   * renamed.
   */
  index: number;
  name: string;
  /** IFLA_INFO_KIND ('veth', 'bridge', 'vxlan', 'wireguard' ...); null for hardware and lo. */
  kind: string | null;
  /** IFLA_GROUP; 0 by default. */
  group: number;
  /** IFLA_MASTER: index of the bridge (or bond ...) that it is a port of, else null. */
  master: number | null;
  /** IFLA_LINK: index of the peer (veth) or of the lower device (vlan, macvlan ...), else null. */
  peer: number | null;
  /**
   * IFLA_LINK_NETNSID: id of the namespace that `peer` is in, if that is another one, else null.
   */
  peerNamespace: number | null;
  isLoopback: boolean;
  /** IFF_UP: set up by an administrator or program. Independent of the carrier. */
  isUp: boolean;
}
