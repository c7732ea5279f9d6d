import { CT_NEW, CTA, CTA_TUPLE, networkOrder, SOCKET_FAMILIES } from './conntrack-entry.ts';
import { attribute, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, nest, toMessage } from './netlink-message.ts';

/** A connection of TCP or UDP without NAT, as its first packet had it. */
export interface NewConnection {
  readonly protocol: 6 | 17;
  /** 4 or 16 bytes. */
  readonly source: Uint8Array;
  readonly destination: Uint8Array;
  readonly sourcePort: number;
  readonly destinationPort: number;
  /** One of TCP_CONNTRACK; null for UDP. */
  readonly tcpState: number | null;
  /** The other end has answered: packets of both directions are established. */
  readonly isAnswered: boolean;
  /** Seconds without a packet after which the kernel forgets it; its first packet sets another. */
  readonly timeout: number;
}

/** TCP_CONNTRACK_* of linux/netfilter/nf_conntrack_tcp.h. */
export const TCP_CONNTRACK = { synSent: 1, synReceived: 2, established: 3, timeWait: 7 } as const;

/** IPS_* of linux/netfilter/nf_conntrack_common.h. */
const SEEN_REPLY = 1 << 1;
const ASSURED = 1 << 2;
const CONFIRMED = 1 << 3;
/** enum ctattr_protoinfo and ctattr_protoinfo_tcp. */
const TCP_INFO = { tcp: 1, state: 1, flagsOriginal: 4, flagsReply: 5 } as const;
/** IP_CT_TCP_FLAG_BE_LIBERAL, as value and as mask: windows and their scale are not known. */
const LIBERAL = Uint8Array.of(8, 8);

/** Adds the connection; EEXIST if one of its directions is tracked already. */
export function createRequest(connection: NewConnection): Uint8Array {
  const { tcpState, timeout } = connection;
  const parts = [
    ...tuples(connection),
    attribute(CTA.status, networkOrder(statusOf(connection))),
    attribute(CTA.timeout, networkOrder(timeout)),
    ...(tcpState === null ? [] : [tcpInfo(tcpState)]),
  ];
  return message(connection, NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL, parts);
}

/** Makes a tracked connection an answered one. */
export function answeredRequest(connection: NewConnection): Uint8Array {
  const [original] = tuples(connection);
  return message(connection, NLM_F_REQUEST, [
    original,
    attribute(CTA.status, networkOrder(statusOf(connection))),
  ]);
}

function statusOf({ isAnswered }: NewConnection): number {
  return isAnswered ? CONFIRMED | SEEN_REPLY | ASSURED : CONFIRMED;
}

function message({ source }: NewConnection, flags: number, parts: readonly Uint8Array[]): Uint8Array {
  const family = SOCKET_FAMILIES[source.length === 4 ? 4 : 6];
  return toMessage(CT_NEW, flags, [Uint8Array.of(family, 0, 0, 0), ...parts]);
}

function tuples({ protocol, source, destination, sourcePort, destinationPort }: NewConnection) {
  const there = tuple(protocol, [source, sourcePort], [destination, destinationPort]);
  const back = tuple(protocol, [destination, destinationPort], [source, sourcePort]);
  return [nest(CTA.original, there), nest(CTA.reply, back)] as const;
}

type End = readonly [address: Uint8Array, port: number];

/** enum ctattr_ip and ctattr_l4proto. */
function tuple(protocol: number, [source, from]: End, [destination, to]: End): Uint8Array[] {
  const first = source.length === 4 ? 1 : 3;
  return [
    nest(CTA_TUPLE.addresses, [attribute(first, source), attribute(first + 1, destination)]),
    nest(CTA_TUPLE.protocol, [
      attribute(1, Uint8Array.of(protocol)),
      attribute(2, bytes16(from)),
      attribute(3, bytes16(to)),
    ]),
  ];
}

function tcpInfo(state: number): Uint8Array {
  return nest(CTA.protocolInfo, [
    nest(TCP_INFO.tcp, [
      attribute(TCP_INFO.state, Uint8Array.of(state)),
      attribute(TCP_INFO.flagsOriginal, LIBERAL),
      attribute(TCP_INFO.flagsReply, LIBERAL),
    ]),
  ]);
}

function bytes16(value: number): Uint8Array {
  return Uint8Array.of(value >> 8, value & 255);
}
