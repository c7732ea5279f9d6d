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

/** A neighbour: the MAC of an address. Or an entry of a forwarding database: where a MAC is. */
export interface RouteNeighbour {
  readonly kind: 'neighbour' | 'fdb';
  /** Index of the link. */
  readonly link: number;
  /** In an fdb entry the other end of the tunnel. */
  readonly address: AddressBytes;
  readonly mac: Uint8Array;
  /** Made by somebody, for ever; the kernel's own entries are not. */
  readonly isPermanent: boolean;
}

/** struct ndmsg: family, padding (3 bytes), index of the link, state (2 bytes), flags, type. */
const HEADER = 12;
const LINK = 4;
const STATE = 8;
const FLAGS = 10;
const AF_BRIDGE = 7;
/** linux/neighbour.h. */
const NDA = { address: 1, mac: 2, link: 8 } as const;
const NUD_NOARP = 0x40;
const NUD_PERMANENT = 0x80;
/** The entry is the link's own, not its bridge's. */
const NTF_SELF = 2;

export function neighbourRequest(operation: RouteOperation, it: RouteNeighbour): Uint8Array {
  const { kind, link, address, mac } = it;
  const isFdb = kind === 'fdb';
  const header = new Uint8Array(HEADER);
  const view = new DataView(header.buffer);
  header[0] = isFdb ? AF_BRIDGE : address.length === 4 ? AF[4] : AF[6];
  view.setUint32(LINK, link, IS_LITTLE_ENDIAN);
  view.setUint16(STATE, isFdb ? NUD_NOARP | NUD_PERMANENT : NUD_PERMANENT, IS_LITTLE_ENDIAN);
  header[FLAGS] = isFdb ? NTF_SELF : 0;
  const parts = [header, attribute(NDA.address, address), attribute(NDA.mac, mac)];
  return routeMessage(operation, RTM.neighbour, parts);
}

/** The forwarding database of a link. */
export function fdbDump(link: number): Uint8Array {
  const header = new Uint8Array(HEADER);
  header[0] = AF_BRIDGE;
  new DataView(header.buffer).setUint32(LINK, link, IS_LITTLE_ENDIAN);
  return dumpMessage(RTM.neighbour, header);
}

/** The neighbours of both families of a link. */
export function neighbourDump(link: number): Uint8Array {
  return dumpMessage(RTM.neighbour, new Uint8Array(HEADER), attribute(NDA.link, u32(link)));
}

export function toNeighbour(message: NetlinkMessage): RouteNeighbour | null {
  const it = RouteMessage.of(message, HEADER);
  if (it === null) return null;
  const family = it.headerU8(0);
  if (family !== AF_BRIDGE && family !== AF[4] && family !== AF[6]) return null;
  return {
    kind: family === AF_BRIDGE ? 'fdb' : 'neighbour',
    link: it.headerU32(LINK),
    address: it.bytes(NDA.address),
    mac: it.bytes(NDA.mac),
    isPermanent: (it.headerU16(STATE) & NUD_PERMANENT) !== 0,
  };
}
