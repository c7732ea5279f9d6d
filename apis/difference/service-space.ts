import type { Range, Ranges } from '../../lib/net/interval.ts';
import { firstAt } from '../../lib/sharing/lists.ts';
import type { PortMatch } from '../compiled.ts';
import { ipProtocolNumber, PROTOCOL_NUMBERS } from '../flow.ts';
import type { Direction } from '../objects.ts';
import { CARRIER_PROTOCOLS } from '../platform.ts';

/**
 * A packet's fields beside its addresses: a protocol, and two numbers. TCP, UDP and SCTP:
 * destination port and source port. ICMP and ICMPv6: type and code. IGMP: type, and of incoming
 * packets the group. Other protocols that rules name: 0, and of incoming packets the destination.
 */

/** Stands for all protocols that nothing tells apart. */
export const OTHER = -1;

/** A rectangle in the two numbers of a protocol. */
export interface Box {
  readonly x: Range;
  readonly y: Range;
}

const { icmp, igmp, tcp, udp, icmpv6, sctp } = PROTOCOL_NUMBERS;
/** Protocols with numbers of their own. */
export const NUMBERED: readonly number[] = [icmp, igmp, tcp, udp, icmpv6, sctp];
/**
 * The failsafe list may name these. GRE comes first: it is the one of them that examples show.
 */
export const CARRIERS: readonly number[] = Object.values(CARRIER_PROTOCOLS).sort(
  (a, b) => Number(b === 47) - Number(a === 47),
);
const PORTS: Range = [1, 65_535];
const BYTE: Range = [0, 255];
const ONE: Range = [0, 0];
const EVERY_IPV4: Range = [0, 2 ** 32 - 1];
/**
 * As a number, a destination of IPv4 is the address. Of IPv6, those that rules name follow this
 * one, which stands for all others.
 */
export const OTHER_DESTINATION = 2 ** 32;
const EVERY_IPV6: Range = [OTHER_DESTINATION, 2 ** 33 - 1];
const EVERY_DESTINATION: Range = [EVERY_IPV4[0], EVERY_IPV6[1]];

/** All flows of a protocol. The destination of outgoing ones is the peer. */
export function wholeBox(protocol: number, direction: Direction, family: 4 | 6): Box {
  switch (protocol) {
    case tcp:
    case udp:
    case sctp:
      return { x: PORTS, y: PORTS };
    case icmp:
    case icmpv6:
      return { x: BYTE, y: BYTE };
    case igmp:
      return { x: BYTE, y: direction === 'ingress' ? EVERY_IPV4 : ONE };
    case OTHER:
      return { x: ONE, y: ONE };
    default:
      if (direction === 'egress') return { x: ONE, y: ONE };
      return { x: ONE, y: family === 4 ? EVERY_IPV4 : EVERY_IPV6 };
  }
}

/**
 * The protocols that packets of a family have.
 *
 * @param others those beside NUMBERED that rules or the failsafe list name
 */
export function protocolsOf(family: 4 | 6, others: readonly number[]): readonly number[] {
  return [OTHER, ...(family === 4 ? [icmp, igmp] : [icmpv6]), tcp, udp, sctp, ...others];
}

/**
 * The flows that a port match stands for, in both families, but for the destination of outgoing
 * ones.
 *
 * @param numberOf a destination as a number
 */
export function boxOf(
  service: PortMatch,
  direction: Direction,
  numberOf: (destination: string) => number,
): Box {
  const whole = wholeBox(ipProtocolNumber(service.protocol), direction, 4);
  switch (service.protocol) {
    case 'tcp':
    case 'udp':
    case 'sctp':
      return { x: service.ports ?? whole.x, y: service.sourcePorts ?? whole.y };
    case 'icmp':
    case 'icmpv6':
      return { x: single(service.type) ?? whole.x, y: single(service.code) ?? whole.y };
    case 'igmp': {
      const group =
        direction === 'ingress' && service.group !== undefined ? numberOf(service.group) : undefined;
      return { x: single(service.type) ?? whole.x, y: single(group) ?? whole.y };
    }
    default: {
      if (direction === 'egress') return whole;
      const { group } = service;
      return { x: whole.x, y: group === undefined ? EVERY_DESTINATION : [numberOf(group), numberOf(group)] };
    }
  }
}

function single(value: number | undefined): Range | undefined {
  return value === undefined ? undefined : [value, value];
}

/** Takes a range out of `ranges`; returns the parts of it that were there. Binary search. */
export function take(ranges: Range[], [first, last]: Range): Range[] {
  const inside: Range[] = [];
  const rest: Range[] = [];
  const begin = indexFrom(ranges, first);
  let end = begin;
  for (let range = ranges[end]; range !== undefined && range[0] <= last; range = ranges[++end]) {
    const [from, to] = range;
    if (from < first) rest.push([from, first - 1]);
    inside.push([Math.max(from, first), Math.min(to, last)]);
    if (to > last) rest.push([last + 1, to]);
  }
  if (end > begin) ranges.splice(begin, end - begin, ...rest);
  return inside;
}

/** Whether a range has a number of `ranges`. */
export function overlaps(ranges: Ranges, [first, last]: Range): boolean {
  const next = ranges[indexFrom(ranges, first)];
  return next !== undefined && next[0] <= last;
}

/** The index of the first range that ends at a number or after it. */
function indexFrom(ranges: Ranges, value: number): number {
  return firstAt(0, ranges.length, (i) => (ranges[i]?.[1] ?? value) >= value);
}
