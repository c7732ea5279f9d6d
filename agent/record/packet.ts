import { formatAddress } from '../../lib/net/address.ts';

/**
 * The fields of a packet for its record. Null: not known (another protocol, a later fragment, or a
 * header beyond the copied bytes).
 */
export interface Packet {
  readonly src: string;
  readonly dst: string;
  /** A name of docs/semantics.md section 4.1, or the number. */
  readonly protocol: Protocol;
  readonly srcPort: number | null;
  readonly dstPort: number | null;
  /** For ICMP, ICMPv6 and IGMP. */
  readonly type: number | null;
  readonly code: number | null;
  /** Length in bytes of the whole packet with its IP header, from that header. */
  readonly length: number;
}

export type Protocol = 'icmp' | 'igmp' | 'tcp' | 'udp' | 'icmpv6' | 'sctp' | number;

/** Assigned Internet protocol numbers (IANA). */
const PROTOCOLS: ReadonlyMap<number, Protocol> = new Map<number, Protocol>([
  [1, 'icmp'],
  [2, 'igmp'],
  [6, 'tcp'],
  [17, 'udp'],
  [58, 'icmpv6'],
  [132, 'sctp'],
]);

/** The name of an IP protocol number; the number if it has none here. */
export function protocolName(number: number): Protocol {
  return PROTOCOLS.get(number) ?? number;
}

/**
 * IPv6 extension headers that name the next header (RFC 7045): hop-by-hop, routing, fragment, AH,
 * destination, mobility, HIP, shim6.
 */
const EXTENSIONS: ReadonlySet<number> = new Set([0, 43, 44, 51, 60, 135, 139, 140]);
const FRAGMENT = 44;
const AUTHENTICATION = 51;
/** Limit of extension headers; no legitimate packet has as many. */
const MAX_EXTENSIONS = 16;

/**
 * Parses a packet from its network header on, which may be truncated anywhere. Null if it is not an
 * IP packet; never throws.
 */
export function parsePacket(bytes: Uint8Array): Packet | null {
  switch (at(bytes, 0) >> 4) {
    case 4:
      return parseIPv4(bytes);
    case 6:
      return parseIPv6(bytes);
    default:
      return null;
  }
}

/** RFC 791, section 3.1. */
function parseIPv4(bytes: Uint8Array): Packet | null {
  const headerLength = 4 * (at(bytes, 0) & 15);
  if (bytes.length < 20 || headerLength < 20) return null;
  const isLater = (word(bytes, 6) & 0x1fff) !== 0;
  return {
    src: ipv4(bytes, 12),
    dst: ipv4(bytes, 16),
    ...parseTransport(bytes, at(bytes, 9), isLater ? null : headerLength),
    // 0 in a packet that the network card segments (BIG TCP).
    length: word(bytes, 2) || bytes.length,
  };
}

/** RFC 8200, sections 3 and 4. */
function parseIPv6(bytes: Uint8Array): Packet | null {
  if (bytes.length < 40) return null;
  const payloadLength = word(bytes, 4);
  let next = at(bytes, 6);
  let offset: number | null = 40;
  for (let i = 0; i < MAX_EXTENSIONS && offset !== null && EXTENSIONS.has(next); i++) {
    if (bytes.length < offset + 8) offset = null;
    else if (next === FRAGMENT && (word(bytes, offset + 2) & 0xfff8) !== 0) {
      // A later fragment: its next-header field is right, but that header is in the first fragment.
      next = at(bytes, offset);
      offset = null;
    } else {
      const units: number = at(bytes, offset + 1);
      const length: number =
        next === FRAGMENT ? 8 : next === AUTHENTICATION ? 4 * (units + 2) : 8 * (units + 1);
      next = at(bytes, offset);
      offset += length;
    }
  }
  return {
    src: ipv6(bytes, 8),
    dst: ipv6(bytes, 24),
    ...parseTransport(bytes, next, EXTENSIONS.has(next) ? null : offset),
    // 0 in a jumbogram.
    length: payloadLength === 0 ? bytes.length : 40 + payloadLength,
  };
}

type Transport = Pick<Packet, 'protocol' | 'srcPort' | 'dstPort' | 'type' | 'code'>;

/** `offset`: null if the packet does not contain the header. */
function parseTransport(bytes: Uint8Array, number: number, offset: number | null): Transport {
  const protocol = protocolName(number);
  const nothing = { protocol, srcPort: null, dstPort: null, type: null, code: null };
  if (offset === null || bytes.length < offset + 2) return nothing;
  switch (protocol) {
    case 'tcp':
    case 'udp':
    case 'sctp':
      if (bytes.length < offset + 4) return nothing;
      return { ...nothing, srcPort: word(bytes, offset), dstPort: word(bytes, offset + 2) };
    case 'icmp':
    case 'icmpv6':
      return { ...nothing, type: at(bytes, offset), code: at(bytes, offset + 1) };
    case 'igmp':
      return { ...nothing, type: at(bytes, offset) };
    default:
      return nothing;
  }
}

/** Address bytes (4 or 16) as text; null for any other number of bytes. */
export function packetAddressText(bytes: Uint8Array): string | null {
  if (bytes.length === 4) return ipv4(bytes, 0);
  return bytes.length === 16 ? ipv6(bytes, 0) : null;
}

function ipv4(bytes: Uint8Array, offset: number): string {
  return `${at(bytes, offset)}.${at(bytes, offset + 1)}.${at(bytes, offset + 2)}.${at(bytes, offset + 3)}`;
}

function ipv6(bytes: Uint8Array, offset: number): string {
  let value = 0n;
  for (let i = 0; i < 16; i += 2) value = (value << 16n) | BigInt(word(bytes, offset + i));
  return formatAddress({ family: 6, value });
}

function at(bytes: Uint8Array, offset: number): number {
  return bytes[offset] ?? 0;
}

/** A 16-bit number in network byte order. */
function word(bytes: Uint8Array, offset: number): number {
  return (at(bytes, offset) << 8) | at(bytes, offset + 1);
}
