import {
  attribute,
  IS_LITTLE_ENDIAN,
  type NetlinkMessage,
  NLM_F_DUMP,
  NLM_F_REQUEST,
  toMessage,
  u32,
} from '../netlink-message.ts';
import { type AddressBytes, AF, RouteMessage, type RouteOperation, RTM, routeMessage } from './object.ts';

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
const HEADER = 8;
const PROTOCOL = 2;
/** linux/nexthop.h. */
const NHA = { id: 1, group: 2, link: 5, via: 6 } as const;
/** struct nexthop_grp: id, weight - 1, reserved (3 bytes). */
const MEMBER = 8;

export function nexthopRequest(operation: RouteOperation, it: RouteNexthop): Uint8Array {
  const { id, protocol, link, via, group } = it;
  if (operation === 'delete') {
    return routeMessage(operation, RTM.nexthop, [new Uint8Array(HEADER), attribute(NHA.id, u32(id))]);
  }
  const header = new Uint8Array(HEADER);
  header[PROTOCOL] = protocol;
  if (via.length > 0) header[0] = via.length === 4 ? AF[4] : AF[6];
  const members = group.map((member) => Buffer.concat([u32(member.id), u32(0)]));
  const way =
    group.length > 0
      ? [attribute(NHA.group, Buffer.concat(members))]
      : [attribute(NHA.link, u32(link)), attribute(NHA.via, via)];
  return routeMessage(operation, RTM.nexthop, [header, attribute(NHA.id, u32(id)), ...way]);
}

export function nexthopDump(): Uint8Array {
  return toMessage(RTM.nexthop + 2, NLM_F_REQUEST | NLM_F_DUMP, [new Uint8Array(HEADER)]);
}

export function toNexthop(message: NetlinkMessage): RouteNexthop | null {
  const it = RouteMessage.of(message, HEADER);
  if (it === null) return null;
  const members = it.bytes(NHA.group);
  const view = new DataView(members.buffer, members.byteOffset, members.length);
  const group = Array.from({ length: Math.floor(members.length / MEMBER) }, (_, i) => ({
    id: view.getUint32(i * MEMBER, IS_LITTLE_ENDIAN),
    weight: view.getUint8(i * MEMBER + 4) + 1,
  }));
  return {
    id: it.u32(NHA.id, 0),
    protocol: it.headerU8(PROTOCOL),
    link: it.u32(NHA.link, 0),
    via: it.bytes(NHA.via),
    group,
  };
}
