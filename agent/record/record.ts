import type { ApiGroup, Direction, PolicyTraffic, RuleAction } from '../../apis/objects.ts';
import { formatAddress } from '../../lib/net/address.ts';

/** One line of the flow log. Keys that do not apply are absent. */
export type LogRecord = ConnectionRecord | SpoofedRecord | RollbackRecord | NoticeRecord;

/** The rule that a record belongs to. */
interface RuleFields {
  readonly policy: string;
  readonly apiGroup: ApiGroup;
  readonly tier: string;
  readonly rule: string;
  /** Index in the list of its direction, from 0. */
  readonly ruleIndex: number;
  readonly label?: string;
  readonly direction: Direction;
  readonly traffic: PolicyTraffic;
}

interface Losses {
  /** Connections that matched this rule since its last record and exceeded the limit. */
  readonly suppressed?: number;
  /**
   * Records of any rule that were lost since the last line, because the reader or the disk was too
   * slow.
   */
  readonly lost?: number;
}

/** A packet and its interface. */
export interface PacketFields {
  /**
   * ISO 8601, UTC: when the packet arrived or, if the kernel has no time stamp (packets of this
   * host), when it was read.
   */
  readonly time: string;
  readonly node: string;
  /** Absent if the packet cannot be parsed. */
  readonly src?: string;
  readonly dst?: string;
  readonly protocol?: Protocol;
  readonly srcPort?: number;
  readonly dstPort?: number;
  readonly icmpType?: number;
  readonly icmpCode?: number;
  readonly igmpType?: number;
  /** The destination before destination NAT, if it differs and the kernel reports it. */
  readonly originalDst?: string;
  readonly originalDstPort?: number;
  /** Name of the interface that the packet came in by (ingress) or goes out by (egress). */
  readonly interface?: string;
  /** Its link group: the name in the configuration, else the number. Absent for group 0. */
  readonly interfaceGroup?: string | number;
  /** Length of the packet with its IP header, in bytes. */
  readonly length?: number;
}

/** One new connection that matched a rule with logging. */
export interface ConnectionRecord extends PacketFields, RuleFields, Losses {
  /** The rule's action; with `audit`, what it would have done. */
  readonly verdict: RuleAction;
  /** The rule's policy has mode Audit; the rule decided nothing. */
  readonly audit?: true;
  /**
   * `POLICY/RULE`: an earlier Audit rule of the same policy that also matched this packet; if
   * enforced, it would have decided.
   */
  readonly after?: string;
  /** The connection was not new: it was ended because the rule denies it now. */
  readonly event?: 'ended';
  /** Why it was ended; only with `event`. */
  readonly reason?: EndReason;
  /** The user who ended it; only with reason `flush`. */
  readonly by?: string;
}

/** `Recheck`: the policy's `established`. `flush`: the command. */
export type EndReason = 'Recheck' | 'flush';

/** Fields of a spoofed packet in the place of a rule's. */
export interface SpoofedFields {
  readonly reason: 'spoofed';
  readonly direction: 'ingress';
}

/** A new packet that was dropped before any rule, for its source address. */
export interface SpoofedRecord extends PacketFields, SpoofedFields, Losses {
  readonly verdict: 'Drop';
}

/** A change of rules was rolled back (guarded apply). Has no verdict. */
export interface RollbackRecord extends Losses {
  readonly time: string;
  readonly node: string;
  readonly event: 'rolledBack';
  readonly reason: string;
  /** API group/name of the policies that changed, and are held. */
  readonly policies: readonly string[];
  /** The probe that failed; absent: it was not a probe. */
  readonly probe?: string;
  /** The rule that denies the probe's flow; absent: none does. */
  readonly apiGroup?: ApiGroup;
  readonly policy?: string;
  readonly rule?: string;
}

/** Losses that no connection record reported in time. Has no verdict. */
export interface NoticeRecord extends Partial<RuleFields>, Partial<Pick<SpoofedFields, 'reason'>>, Losses {
  readonly time: string;
  readonly node: string;
}

/** One line with its newline. All texts are escaped as JSON. */
export function recordLine(record: object): string {
  return `${JSON.stringify(record)}\n`;
}

/** Formats microseconds since 1970 as ISO 8601. */
export function microsecondsText(microseconds: number): string {
  const whole = new Date(Math.floor(microseconds / 1000)).toISOString().slice(0, -1);
  return `${whole}${String(microseconds % 1000).padStart(3, '0')}Z`;
}

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
