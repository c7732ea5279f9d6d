import {
  attribute,
  eachAttribute,
  type NetlinkMessage,
  NLM_F_DUMP,
  NLM_F_REQUEST,
  toMessage,
} from './netlink-message.ts';

/** One direction of a connection. Null: the protocol has no such field. */
export interface ConntrackTuple {
  /** 4 or 16 bytes. */
  readonly source: Uint8Array;
  readonly destination: Uint8Array;
  readonly sourcePort: number | null;
  readonly destinationPort: number | null;
  readonly icmpType: number | null;
  readonly icmpCode: number | null;
}

/** A connection that the kernel tracks. Shares memory with its chunk: copy it to keep it. */
export interface ConntrackEntry {
  readonly family: 4 | 6;
  /** IP protocol number. */
  readonly protocol: number;
  /** IPS_* of linux/netfilter/nf_conntrack_common.h. */
  readonly status: number;
  /** The connection's mark (ct mark). */
  readonly mark: number;
  /** The connection's labels (ct label), 16 bytes; empty: it has no room for any. */
  readonly labels: Uint8Array;
  /** TCP_CONNTRACK_* of linux/netfilter/nf_conntrack_tcp.h; null for other protocols. */
  readonly tcpState: number | null;
  /** As the first packet had it. */
  readonly original: ConntrackTuple;
  /** As answers have it: after NAT, source and destination are not those of `original`. */
  readonly reply: ConntrackTuple;
  /** The attributes that name this entry: tuple, zone and id. */
  readonly identity: readonly Uint8Array[];
}

/** Connections with other bits in the mark are left out. */
export interface MarkFilter {
  readonly mark: number;
  readonly mask: number;
}

/** Bits of `status`. */
export const CONNTRACK_STATUS = { expected: 1, destinationNat: 1 << 5, dying: 1 << 9 } as const;
/** The values of `tcpState` TIME_WAIT and CLOSE: the connection is over. */
export const TCP_ENDED: ReadonlySet<number | null> = new Set([7, 8]);

/** NFNL_SUBSYS_CTNETLINK << 8, with IPCTNL_MSG_CT_* of linux/netfilter/nfnetlink_conntrack.h. */
export const CT_NEW = 0x100;
const CT_GET = 0x101;
export const CT_DELETE = 0x102;
/** struct nfgenmsg. */
export const NFGENMSG_LENGTH = 4;
export const SOCKET_FAMILIES = { 4: 2, 6: 10 } as const;

/** enum ctattr_type. */
export const CTA = {
  original: 1,
  reply: 2,
  status: 3,
  protocolInfo: 4,
  timeout: 7,
  mark: 8,
  id: 12,
  zone: 18,
  markMask: 21,
  labels: 22,
} as const;
const IDENTITY: ReadonlySet<number> = new Set([CTA.original, CTA.id, CTA.zone]);
/** enum ctattr_tuple. */
export const CTA_TUPLE = { addresses: 1, protocol: 2 } as const;
/** enum ctattr_protoinfo and ctattr_protoinfo_tcp. */
const TCP_INFO = 1;
const TCP_STATE = 1;

/** The kernel filters. */
export function dumpRequest(filter: MarkFilter | null): Uint8Array {
  const bits = filter === null ? [] : markAttributes(filter);
  return toMessage(CT_GET, NLM_F_REQUEST | NLM_F_DUMP, [new Uint8Array(NFGENMSG_LENGTH), ...bits]);
}

export function deleteRequest({ family, identity }: ConntrackEntry): Uint8Array {
  return toMessage(CT_DELETE, NLM_F_REQUEST, [Uint8Array.of(SOCKET_FAMILIES[family], 0, 0, 0), ...identity]);
}

/** Sets the mark's bits in the mask. By tuple and zone: the kernel ignores the id here. */
export function markRequest({ family, identity }: ConntrackEntry, mark: number, mask: number): Uint8Array {
  const parts = [Uint8Array.of(SOCKET_FAMILIES[family], 0, 0, 0), ...identity];
  return toMessage(CT_NEW, NLM_F_REQUEST, [...parts, ...markAttributes({ mark, mask })]);
}

function markAttributes({ mark, mask }: MarkFilter): Uint8Array[] {
  return [attribute(CTA.mark, networkOrder(mark)), attribute(CTA.markMask, networkOrder(mask))];
}

export function networkOrder(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value);
  return bytes;
}

/** Null if the message is not about a connection over IP. */
export function toConntrackEntry(message: NetlinkMessage): ConntrackEntry | null {
  return message.type === CT_NEW ? readConntrackEntry(message) : null;
}

/** The connection that a message of any type is about. */
export function readConntrackEntry({ view, start, end }: NetlinkMessage): ConntrackEntry | null {
  if (end - start < NFGENMSG_LENGTH) return null;
  const family = view.getUint8(start) === SOCKET_FAMILIES[4] ? 4 : 6;
  const found: Found = { original: null, reply: null, status: 0, mark: 0, labels: NOTHING, tcpState: null };
  const identity: Uint8Array[] = [];
  eachAttribute(view, start + NFGENMSG_LENGTH, end, (attribute, from, to, at) => {
    if (IDENTITY.has(attribute)) identity.push(bytesOf(view, at, to));
    if (attribute === CTA.original) found.original = toTuple(view, from, to);
    else if (attribute === CTA.reply) found.reply = toTuple(view, from, to);
    else if (attribute === CTA.status && to - from === 4) found.status = view.getUint32(from);
    else if (attribute === CTA.mark && to - from === 4) found.mark = view.getUint32(from);
    else if (attribute === CTA.labels) found.labels = bytesOf(view, from, to);
    else if (attribute === CTA.protocolInfo) found.tcpState = tcpStateOf(view, from, to);
  });
  const { original, reply, status, mark, labels, tcpState } = found;
  if (original === null || reply === null) return null;
  const { protocol, ...first } = original;
  const { protocol: _, ...answer } = reply;
  const width = family === 4 ? 4 : 16;
  const ends = [first.source, first.destination, answer.source, answer.destination];
  if (ends.some(({ length }) => length !== width)) return null;
  return { family, protocol, status, mark, labels, tcpState, original: first, reply: answer, identity };
}

type Draft = { -readonly [Field in keyof ConntrackTuple]: ConntrackTuple[Field] } & { protocol: number };

interface Found {
  original: Draft | null;
  reply: Draft | null;
  status: number;
  mark: number;
  labels: Uint8Array;
  tcpState: number | null;
}

const NOTHING = new Uint8Array(0);

function toTuple(view: DataView, start: number, end: number): Draft {
  const tuple: Draft = {
    source: NOTHING,
    destination: NOTHING,
    sourcePort: null,
    destinationPort: null,
    icmpType: null,
    icmpCode: null,
    protocol: 0,
  };
  eachAttribute(view, start, end, (part, from, to) => {
    if (part === CTA_TUPLE.addresses) {
      // enum ctattr_ip: 1 and 2 for IPv4, 3 and 4 for IPv6.
      eachAttribute(view, from, to, (type, first, last) => {
        if (type === 1 || type === 3) tuple.source = bytesOf(view, first, last);
        else if (type === 2 || type === 4) tuple.destination = bytesOf(view, first, last);
      });
    } else if (part === CTA_TUPLE.protocol) {
      eachAttribute(view, from, to, (type, first, last) => setProtocolField(tuple, view, type, first, last));
    }
  });
  return tuple;
}

/** enum ctattr_l4proto. */
function setProtocolField(tuple: Draft, view: DataView, type: number, from: number, to: number): void {
  if (to <= from) return;
  switch (type) {
    case 1:
      tuple.protocol = view.getUint8(from);
      break;
    case 2:
      tuple.sourcePort = to - from < 2 ? null : view.getUint16(from);
      break;
    case 3:
      tuple.destinationPort = to - from < 2 ? null : view.getUint16(from);
      break;
    case 5:
    case 8:
      tuple.icmpType = view.getUint8(from);
      break;
    case 6:
    case 9:
      tuple.icmpCode = view.getUint8(from);
      break;
  }
}

function tcpStateOf(view: DataView, start: number, end: number): number | null {
  let state: number | null = null;
  eachAttribute(view, start, end, (info, from, to) => {
    if (info !== TCP_INFO) return;
    eachAttribute(view, from, to, (type, first, last) => {
      if (type === TCP_STATE && last > first) state = view.getUint8(first);
    });
  });
  return state;
}

function bytesOf(view: DataView, from: number, to: number): Uint8Array {
  return new Uint8Array(view.buffer, view.byteOffset + from, to - from);
}
