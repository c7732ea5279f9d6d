/**
 * Value of stage 5 beside Ruleset: what a node needs in the kernel's network configuration for
 * egress gateways. Printed by `nodewall compile -o netstate`, made real by agent/egress/apply/.
 * Field names are those of ip(8).
 */
import type { Family } from '../../lib/net/address.ts';
import { EGRESS_TUNNEL_PORT, EGRESS_WIREGUARD_PORT } from '../exemptions.ts';

export interface Netstate {
  /** By name. */
  readonly links: readonly NetLink[];
  /** Peers of the WireGuard device; by key. */
  readonly peers: readonly NetPeer[];
  readonly addresses: readonly NetAddress[];
  readonly neighbours: readonly NetNeighbour[];
  readonly nexthops: readonly NetNexthop[];
  readonly routes: readonly NetRoute[];
  readonly rules: readonly NetRule[];
  /** Paths below /proc/sys and values, of our own devices only. */
  readonly sysctls: readonly { readonly path: string; readonly value: string }[];
}

export type NetLink = NetVxlan | NetWireGuard;

interface NetVxlan {
  readonly kind: 'vxlan';
  readonly name: string;
  readonly mac: string;
  readonly group: number;
  readonly mtu: number;
  readonly id: number;
  readonly port: number;
  /** The node's end of the tunnel. */
  readonly local: string;
}

/** Its port is OWN_NETWORK.wireguard.port, its private key the agent's. */
interface NetWireGuard {
  readonly kind: 'wireguard';
  readonly name: string;
  readonly group: number;
  readonly mtu: number;
}

/** The WireGuard device of another node. */
export interface NetPeer {
  readonly link: string;
  /** Its public key. */
  readonly key: string;
  /** The address to which packets for it are sent. */
  readonly endpoint: string;
  /** The only address that it may send with, and is sent to. */
  readonly address: string;
}

/** With the kernel's route to the network, if the prefix is not that of a single address. */
export interface NetAddress {
  readonly link: string;
  readonly address: string;
  readonly prefixLength: number;
}

export type NetNeighbour =
  /** An entry of the tunnel device's forwarding database: packets to this MAC go to this node. */
  | { readonly kind: 'fdb'; readonly link: string; readonly mac: string; readonly remote: string }
  | { readonly kind: 'neighbour'; readonly link: string; readonly address: string; readonly mac: string };

export type NetNexthop =
  | { readonly id: number; readonly via: string; readonly link: string }
  | { readonly id: number; readonly group: readonly number[] };

export interface NetRoute {
  readonly family: Family;
  readonly table: number;
  /** CIDR; `0.0.0.0/0` and `::/0` are the default. */
  readonly destination: string;
  /** Null: the table has no way there (`throw`), and the next routing rule decides. */
  readonly nexthop: number | null;
}

/** A routing rule; all are of protocol kernel, which systemd-networkd leaves alone. */
export type NetRule = { readonly family: Family; readonly priority: number } & (
  | {
      readonly action: 'goto';
      readonly target: number;
      readonly mark: number;
      readonly mask: number;
      readonly invert?: true;
    }
  | { readonly action: 'nop' }
  | { readonly action: 'table'; readonly table: number; readonly mark: number; readonly mask: number }
);

/**
 * Nodewall's names and numbers in the kernel's network configuration. Objects of others with these
 * are reported, never changed; `links` are nodewall's with all that is on them.
 */
export const OWN_NETWORK = {
  /** Names of devices, with their kinds. */
  links: { 'nodewall-egress': 'vxlan', 'nodewall-wg': 'wireguard' },
  /** The VXLAN device's network identifier and UDP port. */
  vxlan: { id: 7412, port: EGRESS_TUNNEL_PORT },
  /**
   * The UDP port of WireGuard's packets, the link group of its device, by which rules know it
   * (0x6e77 is `nw` in ASCII), and the network of the nodes' addresses inside.
   */
  wireguard: { port: EGRESS_WIREGUARD_PORT, group: 0x6e77_0001, network: 'fd6e:6f64:6577:6c6c' },
  /** IFA_PROTO of addresses, RTPROT_* of next hops and routes. */
  protocol: 119,
  /**
   * Floating addresses are no part of a Netstate: they come and go with leases
   * (agent/egress/floating/). IFA_PROTO, and the dummy device for those that no interface's subnet
   * has. Linux before 5.18 forgets IFA_PROTO, so they have a metric as well, which means nothing
   * for an address without a route: `nw` in ASCII, and the protocol.
   */
  floating: { link: 'nodewall-eip', kind: 'dummy', protocol: 120, metric: 0x6e77_0078 },
  /** First and last table; 0x6e77 is `nw` in ASCII. */
  tables: [0x6e77_0000, 0x6e77_ffff],
  /** First and last id of a next hop. */
  nexthops: [0x6e77_0000, 0x6e8f_ffff],
  /** First and last priority of routing rules. */
  rules: [70, 79],
} as const;

interface Marked {
  /** IFA_PROTO; 0 where the kernel does not keep it. */
  readonly protocol: number;
  readonly metric: number;
}

/** Whether nodewall made the address: it is none of the host's own. */
export function isOwnAddress(address: Marked): boolean {
  return address.protocol === OWN_NETWORK.protocol || isFloating(address);
}

/** Whether nodewall made it as a floating address. */
export function isFloating({ protocol, metric }: Marked): boolean {
  const { floating } = OWN_NETWORK;
  return protocol === floating.protocol || metric === floating.metric;
}
