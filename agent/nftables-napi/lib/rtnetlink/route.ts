import { attribute, IS_LITTLE_ENDIAN, type NetlinkMessage, u32 } from '../netlink-message.ts';
import {
  type AddressBytes,
  AF,
  dumpMessage,
  RouteMessage,
  type RouteOperation,
  RTM,
  routeMessage,
} from './object.ts';

/** The table and the destination of a route, and its maker. */
interface RoutePlace {
  readonly family: 4 | 6;
  readonly table: number;
  /** As many bytes as the family's addresses have. */
  readonly destination: AddressBytes;
  readonly prefixLength: number;
  /** The number of the maker (RTPROT_*). */
  readonly protocol: number;
  /** RTN_UNICAST is 1: no blackhole, no prohibition. */
  readonly type: number;
}

/** A route by a next hop. */
export interface Route extends RoutePlace {
  /** Id of a RouteNexthop; 0: the route has its way in itself. */
  readonly nexthop: number;
  /** The kernel's default is 0 in IPv4, 1024 in IPv6. */
  readonly metric: number;
}

/** struct rtmsg: family, lengths, TOS, table, protocol, scope, type, flags. */
const HEADER = 12;
/** linux/rtnetlink.h. */
const RTA = {
  destination: 1,
  link: 4,
  gateway: 5,
  metric: 6,
  multipath: 9,
  table: 15,
  via: 18,
  nexthop: 30,
} as const;
/** An exception of the kernel's own, for one destination. */
const RTM_F_CLONED = 0x200;

export function routeRequest(operation: RouteOperation, it: Route): Uint8Array {
  const { family, table, destination, prefixLength, protocol, nexthop, metric, type } = it;
  return routeMessage(operation, RTM.route, [
    Uint8Array.of(AF[family], prefixLength, 0, 0, 0, protocol, 0, type, 0, 0, 0, 0),
    ...(prefixLength > 0 ? [attribute(RTA.destination, destination)] : []),
    attribute(RTA.table, u32(table)),
    attribute(RTA.metric, u32(metric)),
    // A removal that names a next hop is refused once that one is gone.
    ...(nexthop > 0 && operation !== 'delete' ? [attribute(RTA.nexthop, u32(nexthop))] : []),
  ]);
}

/** Which routes a dump has: of one table, of one protocol. ENOENT if there is no such table. */
export interface RouteFilter {
  readonly family: 4 | 6;
  readonly table?: number;
  readonly protocol?: number;
}

export function routeDump({ family, table, protocol = 0 }: RouteFilter): Uint8Array {
  const header = Uint8Array.of(AF[family], 0, 0, 0, 0, protocol, 0, 0, 0, 0, 0, 0);
  return dumpMessage(RTM.route, header, ...(table === undefined ? [] : [attribute(RTA.table, u32(table))]));
}

export function toRoute(message: NetlinkMessage): Route | null {
  return read(message, (it) => ({ nexthop: it.u32(RTA.nexthop, 0), metric: it.u32(RTA.metric, 0) }));
}

function read<More>(message: NetlinkMessage, more: (it: RouteMessage) => More): (RoutePlace & More) | null {
  const it = RouteMessage.of(message, HEADER);
  const family = it?.family() ?? null;
  if (it === null || family === null || (it.headerU32(8) & RTM_F_CLONED) !== 0) return null;
  const destination = it.bytes(RTA.destination);
  return {
    family,
    table: it.u32(RTA.table, it.headerU8(4)),
    destination: destination.length > 0 ? destination : new Uint8Array(family === 4 ? 4 : 16),
    prefixLength: it.headerU8(1),
    protocol: it.headerU8(5),
    type: it.headerU8(7),
    ...more(it),
  };
}

/** A route, as far as it says by which links packets leave. */
export interface LinkRoute extends RoutePlace {
  /** RT_SCOPE_*; in IPv6 always 0. */
  readonly scope: number;
  /** One for each next hop, also for those of next-hop objects. */
  readonly ways: readonly RouteWay[];
}

export interface RouteWay {
  /** Index of the link. */
  readonly link: number;
  readonly hasGateway: boolean;
}

/** struct rtnexthop: its length with attributes (u16), flags, hops, index of the link. */
const NEXT_HOP = { header: 8, length: 0, link: 4 } as const;

/** Routes of all tables. */
export function linkRouteDump(family: 4 | 6): Uint8Array {
  return routeDump({ family });
}

export function toLinkRoute(message: NetlinkMessage): LinkRoute | null {
  return read(message, (it) => ({ scope: it.headerU8(6), ways: toWays(it) }));
}

function toWays(it: RouteMessage): RouteWay[] {
  const ways: RouteWay[] = it.has(RTA.link)
    ? [{ link: it.u32(RTA.link, 0), hasGateway: it.has(RTA.gateway) || it.has(RTA.via) }]
    : [];
  const bytes = it.bytes(RTA.multipath);
  const view = new DataView(bytes.buffer);
  let start = 0;
  while (start + NEXT_HOP.header <= bytes.length) {
    const length = view.getUint16(start + NEXT_HOP.length, IS_LITTLE_ENDIAN);
    const end = Math.min(start + length, bytes.length);
    if (length < NEXT_HOP.header) break;
    const hop = RouteMessage.within(view, start, end, NEXT_HOP.header);
    const hasGateway = hop.has(RTA.gateway) || hop.has(RTA.via);
    ways.push({ link: hop.headerU32(NEXT_HOP.link), hasGateway });
    start += (length + 3) & ~3;
  }
  return ways;
}

/** A next hop that routes name by its id: a gateway behind a link, or a group of such. */
export interface RouteNexthop {
  readonly id: number;
  /** The number of the maker (RTPROT_*). */
  readonly protocol: number;
  /** Index of the link; 0 of a group. */
  readonly link: number;
  /** The gateway; empty of a group. */
  readonly via: AddressBytes;
  /** Empty: not a group. Each of weight 1 when it is made. */
  readonly group: readonly { readonly id: number; readonly weight: number }[];
}

/** struct nhmsg: family, scope, protocol, reserved, flags. */
const NEXTHOP_HEADER = 8;
const NEXTHOP_PROTOCOL = 2;
/** linux/nexthop.h. */
const NHA = { id: 1, group: 2, link: 5, via: 6 } as const;
/** struct nexthop_grp: id, weight - 1, reserved (3 bytes). */
const MEMBER = 8;

export function nexthopRequest(operation: RouteOperation, it: RouteNexthop): Uint8Array {
  const { id, protocol, link, via, group } = it;
  if (operation === 'delete') {
    return routeMessage(operation, RTM.nexthop, [new Uint8Array(NEXTHOP_HEADER), attribute(NHA.id, u32(id))]);
  }
  const header = new Uint8Array(NEXTHOP_HEADER);
  header[NEXTHOP_PROTOCOL] = protocol;
  if (via.length > 0) header[0] = via.length === 4 ? AF[4] : AF[6];
  const members = group.map((member) => Buffer.concat([u32(member.id), u32(0)]));
  const way =
    group.length > 0
      ? [attribute(NHA.group, Buffer.concat(members))]
      : [attribute(NHA.link, u32(link)), attribute(NHA.via, via)];
  return routeMessage(operation, RTM.nexthop, [header, attribute(NHA.id, u32(id)), ...way]);
}

export function nexthopDump(): Uint8Array {
  return dumpMessage(RTM.nexthop, new Uint8Array(NEXTHOP_HEADER));
}

export function toNexthop(message: NetlinkMessage): RouteNexthop | null {
  const it = RouteMessage.of(message, NEXTHOP_HEADER);
  if (it === null) return null;
  const members = it.bytes(NHA.group);
  const view = new DataView(members.buffer, members.byteOffset, members.length);
  const group = Array.from({ length: Math.floor(members.length / MEMBER) }, (_, i) => ({
    id: view.getUint32(i * MEMBER, IS_LITTLE_ENDIAN),
    weight: view.getUint8(i * MEMBER + 4) + 1,
  }));
  return {
    id: it.u32(NHA.id, 0),
    protocol: it.headerU8(NEXTHOP_PROTOCOL),
    link: it.u32(NHA.link, 0),
    via: it.bytes(NHA.via),
    group,
  };
}
