/**
 * Makes a flow complete and its addresses the topology's, so that a packet says all that rules may
 * ask about.
 */
import type { AddressPlan, ClientAddress } from '../netns/topology.ts';

/**
 * A flow as docs/semantics.md writes it, made complete: what a real packet needs is all there.
 */

type ProtocolName = 'tcp' | 'udp' | 'sctp' | 'icmp' | 'icmpv6' | 'igmp';

export interface Flow {
  readonly direction: 'ingress' | 'egress';
  readonly src: string;
  readonly dst: string;
  readonly protocol: ProtocolName | number;
  readonly srcPort?: number;
  readonly dstPort?: number;
  readonly icmpType?: number;
  readonly icmpCode?: number;
  readonly igmpType?: number;
  readonly interfaceGroup?: number | string;
  readonly traffic?: 'Host' | 'NodePort';
}

export type Verdict = 'Allow' | 'Drop' | 'Reject';

const NUMBERS: Readonly<Record<ProtocolName, number>> = {
  icmp: 1,
  igmp: 2,
  tcp: 6,
  udp: 17,
  icmpv6: 58,
  sctp: 132,
};

export function protocolNumber(protocol: Flow['protocol']): number {
  return typeof protocol === 'number' ? protocol : NUMBERS[protocol];
}

export const isV6 = (address: string): boolean => address.includes(':');

/**
 * Protocol numbers that IPv6 takes for extension headers: no packet can carry them as its protocol.
 */
const IPV6_EXTENSIONS = new Set([0, 43, 44, 51, 59, 60, 135, 139, 140]);

/** Why no real packet can be sent for a flow; undefined when one can. */
export function unsendable(flow: Flow): string | undefined {
  const protocol = protocolNumber(flow.protocol);
  if (isV6(flow.src) !== isV6(flow.dst)) return 'source and destination are of different families';
  if (isV6(flow.src) && IPV6_EXTENSIONS.has(protocol))
    return `protocol ${protocol} is an IPv6 extension header`;
  if ([6, 17, 132].includes(protocol) && flow.dstPort === undefined) return 'no destination port';
  if (isIcmp(flow) && flow.icmpType === undefined) return 'no ICMP type';
  if (flow.traffic === 'NodePort' && !isForNat(flow)) return 'NAT hands no such packet to a pod';
  return undefined;
}

/**
 * ICMP types that open a connection for connection tracking, which destination NAT needs
 * (net/netfilter/nf_conntrack_proto_icmp.c, nf_conntrack_proto_icmpv6.c).
 */
const OPENING_ICMP: ReadonlyMap<number, readonly number[]> = new Map([
  [1, [8, 13, 15, 17]],
  [58, [128]],
]);

function isForNat(flow: Flow): boolean {
  const types = OPENING_ICMP.get(protocolNumber(flow.protocol));
  if (flow.direction === 'egress' || isMulticast(flow.dst)) return false;
  return types?.includes(flow.icmpType ?? 0) ?? true;
}

/** ICMP of the packet's own family. */
export function isIcmp(flow: Flow): boolean {
  return protocolNumber(flow.protocol) === (isV6(flow.src) ? 58 : 1);
}

/**
 * ICMP types that the kernel answers with an error, measured over all 256 on 6.18: queries and
 * their replies.
 */
const ANSWERED_ICMP = new Set([0, 8, 13, 14, 15, 16, 17, 18]);

/**
 * What a verdict looks like from outside. The kernel answers neither ICMP errors nor multicast (RFC
 * 1122 section 3.2.2, RFC 4443 section 2.4), nor ICMP types it doesn't know: there a Reject is a
 * Drop.
 */
export function asObserved(flow: Flow, verdict: Verdict): Verdict {
  return verdict === 'Reject' && neverAnswered(flow) ? 'Drop' : verdict;
}

function neverAnswered(flow: Flow): boolean {
  if (isMulticast(flow.dst)) return true;
  if (!isIcmp(flow)) return false;
  const type = flow.icmpType ?? 0;
  return isV6(flow.dst) ? type < 128 : !ANSWERED_ICMP.has(type);
}

export function isMulticast(address: string): boolean {
  return isV6(address) ? address.toLowerCase().startsWith('ff') : Number(address.split('.')[0]) >= 224;
}

/** A flow as it may be drawn: anything but the direction may be absent. */
export interface PartialFlow extends Partial<Omit<Flow, 'direction' | 'protocol'>> {
  readonly direction: Flow['direction'];
  readonly protocol?: string | number;
}

/**
 * The nearest flow that the topology can carry; undefined when there is none (mixed families,
 * NodePort without ports, …). What is absent is chosen by `index`; an address nobody has is
 * replaced by one that somebody has.
 */
export function toCompleteFlow(flow: PartialFlow, plan: AddressPlan, index: number): Flow | undefined {
  const isV6Flow = isV6(flow.src ?? flow.dst ?? (index % 2 ? '::' : ''));
  const family = isV6Flow ? 'v6' : 'v4';
  const isIngress = flow.direction === 'ingress';
  const remoteText = isIngress ? flow.src : flow.dst;
  const client = clientOf(plan, remoteText) ?? pick(plan.clientAddresses, index);
  const own = ownOf(plan, isIngress ? flow.dst : flow.src) ?? pick(plan.nodeAddresses, index)[family];
  const group = flow.dst !== undefined && plan.multicastGroups.includes(flow.dst) ? flow.dst : undefined;
  const remote = remoteText !== undefined && clientOf(plan, remoteText) ? remoteText : client[family];
  const ends = isIngress ? { src: remote, dst: group ?? own } : { src: own, dst: group ?? remote };
  const protocol = (flow.protocol ?? 'tcp') as Flow['protocol'];
  const complete: Flow = {
    direction: flow.direction,
    ...ends,
    protocol,
    ...services(flow, protocolNumber(protocol), index),
    // Multicast leaves by the first client's interface, whoever it was meant for.
    interfaceGroup: (isIngress || group === undefined ? client : pick(plan.clientAddresses, 0)).group,
    ...(flow.traffic === undefined ? {} : { traffic: flow.traffic }),
  };
  return unsendable(complete) === undefined ? complete : undefined;
}

/** The fields that a packet of the protocol has, and no others. */
function services(flow: PartialFlow, protocol: number, index: number): Partial<Flow> {
  switch (protocol) {
    case 1:
    case 58:
      return { icmpType: flow.icmpType ?? (protocol === 1 ? 8 : 128), icmpCode: flow.icmpCode ?? 0 };
    case 2:
      return { igmpType: flow.igmpType ?? 0x16 };
    case 6:
    case 17:
    case 132:
      return { srcPort: flow.srcPort ?? 33_000 + (index % 1000), dstPort: flow.dstPort ?? 8080 };
    default:
      return {};
  }
}

function clientOf(plan: AddressPlan, address: string | undefined): ClientAddress | undefined {
  return plan.clientAddresses.find(({ v4, v6 }) => v4 === address || v6 === address);
}

function ownOf(plan: AddressPlan, address: string | undefined): string | undefined {
  return plan.nodeAddresses.flatMap(({ v4, v6 }) => [v4, v6]).find((own) => own === address);
}

function pick<T>(list: readonly T[], index: number): T {
  const item = list[index % list.length];
  if (item === undefined) throw new Error('an empty address plan');
  return item;
}
