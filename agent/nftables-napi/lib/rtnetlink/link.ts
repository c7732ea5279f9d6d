import {
  attribute,
  IS_LITTLE_ENDIAN,
  type NetlinkMessage,
  NLM_F_CREATE,
  NLM_F_DUMP,
  NLM_F_EXCL,
  NLM_F_REQUEST,
  nest,
  textBytes,
  toMessage,
  u32,
} from '../netlink-message.ts';
import { type AddressBytes, AF, NO_BYTES, RouteMessage, type RouteOperation, RTM } from './object.ts';

/** A network interface, as of one message of the kernel. */
export interface Link {
  /**
   * Its number in the network namespace, from 1; not reused soon, and kept when the link is
   * renamed.
   */
  readonly index: number;
  readonly name: string;
  /** IFLA_INFO_KIND ('veth', 'bridge', 'vxlan', 'wireguard' ...); null for hardware and lo. */
  readonly kind: string | null;
  /** IFLA_GROUP; 0 by default. */
  readonly group: number;
  /** IFLA_MASTER: index of the bridge (or bond ...) that it is a port of, else null. */
  readonly master: number | null;
  /** IFLA_LINK: index of the peer (veth) or of the lower device (vlan, macvlan ...), else null. */
  readonly peer: number | null;
  /**
   * IFLA_LINK_NETNSID: id of the namespace that `peer` is in, if that is another one, else null.
   */
  readonly peerNamespace: number | null;
  readonly isLoopback: boolean;
  /** IFF_UP: set up by an administrator or program. Independent of the carrier. */
  readonly isUp: boolean;
  /**
   * IFLA_QDISC other than noqueue, or several queues (IFLA_NUM_TX_QUEUES): what it sends may wait.
   * The kernel reports no change of the former alone.
   */
  readonly hasQueue: boolean;
  /**
   * UDP destination port of a tunnel: of vxlan, geneve or bareudp, or of the encapsulation (FOU,
   * GUE) of ipip, sit, ip6tnl and the kinds of GRE. Absent: it has none.
   */
  readonly tunnelPort?: number;
}

/** A link as it can be made and changed. */
export interface RouteLink {
  /** 0 of one that is to be made: the kernel chooses. */
  readonly index: number;
  readonly name: string;
  /** The kernel's name of its type: vxlan, dummy; null: it has none. */
  readonly kind: string | null;
  readonly group: number;
  /** 0 of one that is to be made: the kernel's default. */
  readonly mtu: number;
  /** Empty of one that is to be made: the kernel chooses. */
  readonly mac: Uint8Array;
  readonly isUp: boolean;
  /** Null: of another kind. */
  readonly vxlan: RouteVxlan | null;
}

/** A link that was read. */
export interface ReadLink extends Link, RouteLink {}

export interface RouteVxlan {
  readonly id: number;
  /** UDP port. */
  readonly port: number;
  readonly local: AddressBytes;
  /** Where packets to unknown MACs go; empty: nowhere. */
  readonly remote: AddressBytes;
  readonly learning: boolean;
  /** Whether outer IPv4 packets have a UDP checksum. */
  readonly checksum: boolean;
}

/** Settings of a link that are below /proc/sys/net/ipv4/conf, too: IPV4_DEVCONF_* of linux/ip.h. */
const IPV4_SETTINGS = { rp_filter: 8, src_valid_mark: 24 } as const;
export type IPv4Setting = keyof typeof IPV4_SETTINGS;

/** struct ifinfomsg: family, padding, type (2 bytes), index, flags, mask of changed flags. */
const HEADER = 16;
const INDEX = 4;
const RTM_SETLINK = 19;
const FLAGS = 8;
const IFF_UP = 1;
const IFF_LOOPBACK = 8;
/** linux/if_link.h. */
const IFLA = {
  address: 1,
  name: 3,
  mtu: 4,
  link: 5,
  discipline: 6,
  master: 10,
  wireless: 11,
  info: 18,
  families: 26,
  group: 27,
  mask: 29,
  queues: 31,
  linkNamespace: 37,
} as const;
const IFLA_INET_CONF = 1;
const INFO = { kind: 1, data: 2 } as const;
const VXLAN = { id: 1, remote: 2, local: 4, learning: 7, port: 15, remote6: 16, local6: 17, checksum: 18 };
/** By kind: the attribute of the UDP port (linux/if_link.h). */
const PORT_ATTRIBUTE: Readonly<Record<string, number>> = { vxlan: 15, geneve: 5, bareudp: 1 };
/** IFLA_IPTUN_ENCAP_TYPE and _DPORT, IFLA_GRE_ENCAP_TYPE and _DPORT (linux/if_tunnel.h). */
const IPTUN = { encapsulation: 15, port: 18 } as const;
const GRE = { encapsulation: 14, port: 17 } as const;
const ENCAPSULATED: Readonly<Record<string, typeof IPTUN | typeof GRE>> = {
  ipip: IPTUN,
  sit: IPTUN,
  ip6tnl: IPTUN,
  gre: GRE,
  gretap: GRE,
  erspan: GRE,
  ip6gre: GRE,
  ip6gretap: GRE,
  ip6erspan: GRE,
};
/** RTEXT_FILTER_SKIP_STATS: statistics are most of a message. */
const SKIP_STATS = 8;

/**
 * add makes a link; replace changes group, MTU, MAC and state of the one with this index, and
 * nothing of its kind, and neither an MTU of 0 nor an empty MAC (with any, also the same, the
 * kernel forgets the link's neighbours); delete removes the one with this index.
 */
export function linkRequest(operation: RouteOperation, link: RouteLink): Uint8Array {
  const { index, name, kind, group, mtu, mac, isUp, vxlan } = link;
  const header = new Uint8Array(HEADER);
  const view = new DataView(header.buffer);
  view.setInt32(INDEX, index, IS_LITTLE_ENDIAN);
  if (operation === 'delete') return toMessage(RTM.link + 1, NLM_F_REQUEST, [header]);
  view.setUint32(FLAGS, isUp ? IFF_UP : 0, IS_LITTLE_ENDIAN);
  view.setUint32(FLAGS + 4, IFF_UP, IS_LITTLE_ENDIAN);
  const attributes = [
    attribute(IFLA.group, u32(group)),
    ...(mtu > 0 ? [attribute(IFLA.mtu, u32(mtu))] : []),
    ...(mac.length > 0 ? [attribute(IFLA.address, mac)] : []),
  ];
  if (operation === 'replace') return toMessage(RTM.link, NLM_F_REQUEST, [header, ...attributes]);
  const info = [
    attribute(INFO.kind, textBytes(kind ?? '')),
    ...(vxlan === null ? [] : [nest(INFO.data, vxlanAttributes(vxlan))]),
  ];
  const made = [attribute(IFLA.name, textBytes(name)), ...attributes, nest(IFLA.info, info)];
  return toMessage(RTM.link, NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL, [header, ...made]);
}

function vxlanAttributes({ id, port, local, remote, learning, checksum }: RouteVxlan): Uint8Array[] {
  const flag = (on: boolean): Uint8Array => Uint8Array.of(on ? 1 : 0);
  const end = (value: AddressBytes, v4: number, v6: number): Uint8Array[] =>
    value.length === 0 ? [] : [attribute(value.length === 4 ? v4 : v6, value)];
  return [
    attribute(VXLAN.id, u32(id)),
    attribute(VXLAN.port, Uint8Array.of(port >> 8, port & 255)),
    ...end(local, VXLAN.local, VXLAN.local6),
    ...end(remote, VXLAN.remote, VXLAN.remote6),
    attribute(VXLAN.learning, flag(learning)),
    attribute(VXLAN.checksum, flag(checksum)),
  ];
}

/** Changes one setting of the link with this name. */
export function ipv4SettingRequest(name: string, setting: IPv4Setting, value: number): Uint8Array {
  const inet = nest(IFLA_INET_CONF, [attribute(IPV4_SETTINGS[setting], u32(value))]);
  const families = nest(IFLA.families, [nest(AF[4], [inet])]);
  return toMessage(RTM_SETLINK, NLM_F_REQUEST, [
    new Uint8Array(HEADER),
    attribute(IFLA.name, textBytes(name)),
    families,
  ]);
}

export function linkDump(): Uint8Array {
  return linkQuestion(0, NLM_F_DUMP);
}

/** Asks for the link with this index. */
export function linkQuestion(index: number, flags = 0): Uint8Array {
  const header = new Uint8Array(HEADER);
  new DataView(header.buffer).setInt32(INDEX, index, IS_LITTLE_ENDIAN);
  return toMessage(RTM.link + 2, NLM_F_REQUEST | flags, [header, attribute(IFLA.mask, u32(SKIP_STATS))]);
}

/** Null if the message is not about a link as a whole. */
export function toLink(message: NetlinkMessage): ReadLink | null {
  const it = RouteMessage.of(message, HEADER);
  const name = it?.text(IFLA.name) ?? null;
  // A bridge tells of its ports with AF_BRIDGE: there a removal only means that the port left. A
  // wireless event has nothing in it but the name and the event.
  if (it === null || name === null || it.headerU8(0) !== 0 || it.has(IFLA.wireless)) return null;
  const flags = it.headerU32(FLAGS);
  const info = it.nested(IFLA.info);
  const kind = info?.text(INFO.kind) ?? null;
  const tunnel = info?.nested(INFO.data) ?? null;
  const data = kind === 'vxlan' ? tunnel : null;
  const port = tunnelPort(kind, tunnel);
  return {
    index: it.headerU32(INDEX),
    name,
    kind,
    group: it.u32(IFLA.group, 0),
    mtu: it.u32(IFLA.mtu, 0),
    mac: it.bytes(IFLA.address),
    // 0: a tunnel without a lower device.
    peer: it.u32(IFLA.link, 0) || null,
    master: it.u32(IFLA.master, 0) || null,
    peerNamespace: it.has(IFLA.linkNamespace) ? it.u32(IFLA.linkNamespace, 0) | 0 : null,
    isLoopback: (flags & IFF_LOOPBACK) !== 0,
    isUp: (flags & IFF_UP) !== 0,
    hasQueue: it.text(IFLA.discipline) !== 'noqueue' || it.u32(IFLA.queues, 0) !== 1,
    ...(port === 0 ? {} : { tunnelPort: port }),
    vxlan: data && {
      id: data.u32(VXLAN.id, 0),
      port: data.port(VXLAN.port),
      local: either(data.bytes(VXLAN.local), data.bytes(VXLAN.local6)),
      remote: either(data.bytes(VXLAN.remote), data.bytes(VXLAN.remote6)),
      learning: data.u8(VXLAN.learning, 0) !== 0,
      checksum: data.u8(VXLAN.checksum, 0) !== 0,
    },
  };
}

/** 0: none. */
function tunnelPort(kind: string | null, data: RouteMessage | null): number {
  if (kind === null || data === null) return 0;
  const port = Object.hasOwn(PORT_ATTRIBUTE, kind) ? PORT_ATTRIBUTE[kind] : undefined;
  if (port !== undefined) return data.port(port);
  const inside = Object.hasOwn(ENCAPSULATED, kind) ? ENCAPSULATED[kind] : undefined;
  if (inside === undefined || data.u16(inside.encapsulation, 0) === 0) return 0;
  return data.port(inside.port);
}

/** The kernel sends an address of zeros for one that is not set. */
function either(v4: Uint8Array, v6: Uint8Array): Uint8Array {
  const bytes = v4.length > 0 ? v4 : v6;
  return bytes.some((byte) => byte !== 0) ? bytes : NO_BYTES;
}
