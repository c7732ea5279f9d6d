import { ipv4Number } from '../../lib/net/address.ts';
import type { Range, Ranges } from '../../lib/net/interval.ts';
import { firstAt } from '../../lib/sharing/lists.ts';
import type { PortMatch } from '../compiled.ts';
import { PROTOCOL_NUMBERS } from '../flow.ts';
import type { Direction } from '../objects.ts';
import { CARRIER_PROTOCOLS } from '../platform.ts';

/**
 * A packet's fields beside its addresses: a protocol, and for some protocols two numbers. TCP, UDP
 * and SCTP: destination port and source port. ICMP and ICMPv6: type and code. IGMP: type, and of
 * incoming packets the group.
 */

/** Stands for all protocols that nothing tells apart. */
export const OTHER = -1;

/** A rectangle in the two numbers of a protocol. */
export interface Box {
  readonly x: Range;
  readonly y: Range;
}

const { icmp, igmp, tcp, udp, icmpv6, sctp } = PROTOCOL_NUMBERS;
/** GRE comes first: it is the one of them that examples show. */
const CARRIERS = Object.values(CARRIER_PROTOCOLS).sort((a, b) => Number(b === 47) - Number(a === 47));
/** The protocols that rules or the failsafe list may name. */
export const NUMBERED: readonly number[] = [icmp, igmp, tcp, udp, icmpv6, sctp, ...CARRIERS];
const PORTS: Range = [1, 65_535];
const BYTE: Range = [0, 255];
const ONE: Range = [0, 0];
const EVERY_IPV4: Range = [0, 2 ** 32 - 1];

/** All flows of a protocol. The group of outgoing IGMP is the peer. */
export function wholeBox(protocol: number, direction: Direction): Box {
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
    default:
      return { x: ONE, y: ONE };
  }
}

/** The protocols that packets of a family have. */
export function protocolsOf(family: 4 | 6): readonly number[] {
  return [OTHER, ...(family === 4 ? [icmp, igmp] : [icmpv6]), tcp, udp, sctp, ...CARRIERS];
}

/** The flows that a port match stands for, but for the group of outgoing IGMP. */
export function boxOf(service: PortMatch, direction: Direction): Box {
  const whole = wholeBox(PROTOCOL_NUMBERS[service.protocol], direction);
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
        direction === 'ingress' && service.group !== undefined ? ipv4Number(service.group) : undefined;
      return { x: single(service.type) ?? whole.x, y: single(group) ?? whole.y };
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
