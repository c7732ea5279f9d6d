import type { Config } from '../../apis/config.ts';
import type { Flow } from '../../apis/flow.ts';
import type { Direction } from '../../apis/objects.ts';
import { type Address, type Family, parseAddress } from '../../lib/net/address.ts';
import { hasMember, type MemberSet, NO_MEMBERS } from '../../lib/net/member-set.ts';

/** The name of a VRF device. */
export const VRF = 'vrf7';

/**
 * What the kernel knows of one packet when it reaches the hook of its direction. Fields that the
 * packet's protocol doesn't have are absent, as they are on the wire.
 */
export interface Packet {
  /**
   * ingress is the input hook (prerouting and forward, where `isForwarded`), egress the output
   * hook.
   */
  readonly direction: Direction;
  readonly family: Family;
  readonly src: bigint;
  readonly dst: bigint;
  /** IP protocol number. */
  readonly protocol: number;
  readonly srcPort?: number;
  readonly dstPort?: number;
  /** First byte of the ICMP, ICMPv6 or IGMP header. */
  readonly type?: number;
  /** Second byte of the ICMP or ICMPv6 header. */
  readonly code?: number;
  /** The interface it comes in by (ingress) or goes out by (egress). */
  readonly interface: { readonly name: 'lo' | 'eth0' | typeof VRF; readonly group: number };
  /** ct state established or related. */
  readonly established: boolean;
  /** Whether the source, or the destination, is an address of this machine; absent: it is not. */
  readonly isFromOwn?: boolean;
  readonly isToOwn?: boolean;
  /** Whether it goes to a multicast or broadcast address. */
  readonly isMulticast?: boolean;
  /** The machine's own copy of a multicast that it sends: it has no Ethernet header. */
  readonly isOwnCopy?: boolean;
  /** What the client used before destination NAT, of a packet that it has changed. */
  readonly original: { readonly dst: bigint; readonly dstPort: number | undefined } | null;
  /** NAT hands it to a pod: it is looked at in the hooks prerouting and forward. */
  readonly isForwarded: boolean;
  // The rest is for the way from prerouting to postrouting (path.ts).
  /** The marks of the packet and of its connection; absent: 0. */
  readonly mark?: number;
  readonly ctMark?: number;
  /** Absent: none. */
  readonly ctLabels?: readonly number[];
  /** Which way of its connection it goes; absent: original. */
  readonly ctDirection?: 'original' | 'reply';
  /** It has no conntrack entry. Of TCP, it does not ask for a connection then. */
  readonly isUntracked?: boolean;
  /** The source NAT of its connection; null, at NAT: none is bound yet; absent: none was. */
  readonly binding?: Binding | null;
  /** No route leads back to its source by the interface that it came by. */
  readonly lacksRouteBack?: boolean;
  /** Of the Ethernet header that it came with, `aa:bb:…`; absent: there is none. */
  readonly sourceMac?: string;
  /** The MAC addresses of the frame in it, if it is VXLAN. */
  readonly innerMac?: string;
  /** A process of this machine sends it. */
  readonly hasSocket?: boolean;
  /** The interface that it goes out by, once it is routed; its address, for masquerade. */
  readonly output?: Packet['interface'] & { readonly address?: bigint };
  /** TCP flag SYN. */
  readonly isSyn?: boolean;
  /** What a rule said of its segment size. */
  readonly maxSegment?: number | 'rt mtu';
}

/** What source NAT bound a connection to: its first packet had one source and got the other. */
export interface Binding {
  readonly from: bigint;
  readonly to: bigint;
}

/**
 * Where destination NAT sends every connection to a NodePort: a pod's port, which no rule may look
 * at.
 */
const POD_PORT = 60_001;

const PROTOCOLS = { icmp: 1, igmp: 2, tcp: 6, udp: 17, icmpv6: 58, sctp: 132 } as const;
const PORT_PROTOCOLS: readonly number[] = [6, 17, 132];
const TYPE_PROTOCOLS: readonly number[] = [1, 2, 58];

/**
 * The packet that opens the connection a flow speaks of; null where the flow leaves open what every
 * packet has, or says what none can have.
 * @param own the node's own addresses: what goes between two of them goes through lo
 * @param localPods addresses to which packets leave by an interface of pods, if the flow names none
 */
export function toPacket(
  flow: Flow,
  own: readonly string[],
  config: Config,
  localPods: MemberSet = NO_MEMBERS,
): Packet | null {
  const src = parseAddress(flow.src ?? '');
  const dst = parseAddress(flow.dst ?? '');
  const protocol = typeof flow.protocol === 'string' ? PROTOCOLS[flow.protocol] : flow.protocol;
  if (src === null || dst === null || src.family !== dst.family || protocol === undefined) return null;
  const ports = portsOf(flow, protocol);
  const types = typesOf(flow, protocol);
  if (ports === null || types === null) return null;
  const nodePort = flow.traffic === 'NodePort';
  if (nodePort && flow.direction === 'egress') return null;
  // What the node sends to a NodePort of its own never leaves it.
  const isFromOwn = isLocal(src, own);
  const isToPod = flow.direction === 'egress' && hasMember(localPods, dst);
  const group = toGroup(flow.interfaceGroup ?? (isToPod ? 'pods' : undefined), config);
  // A flow by a pod's interface says that it is not by lo, if somebody asks.
  const isByPod =
    config.antiSpoofing && flow.direction === 'ingress' && group === config.interfaceGroups.pods;
  const local = !isByPod && isFromOwn && (nodePort || isLocal(dst, own));
  return {
    direction: flow.direction,
    family: src.family,
    src: src.value,
    dst: dst.value,
    protocol,
    ...ports,
    ...(nodePort && ports.dstPort !== undefined ? { dstPort: POD_PORT } : {}),
    ...types,
    original: nodePort ? { dst: dst.value, dstPort: ports.dstPort } : originalOf(flow, dst, ports),
    isForwarded: nodePort,
    isFromOwn,
    isToOwn: !nodePort && isLocal(dst, own),
    ...(flow.direction === 'ingress' && !nodePort && isMulticast(dst)
      ? { isMulticast: true, isOwnCopy: isFromOwn && !isByPod }
      : {}),
    interface: { name: local ? 'lo' : 'eth0', group },
    established: false,
    ...(flow.untracked === true ? { isUntracked: true } : {}),
  };
}

/** Null where there was no NAT: the flow says the same twice, or nothing. */
function originalOf(
  { originalDst, originalDstPort }: Flow,
  dst: Address,
  { dstPort }: Partial<Ports>,
): Packet['original'] {
  if (dstPort === undefined) return null;
  const { value } = parseAddress(originalDst ?? '') ?? dst;
  const port = originalDstPort ?? dstPort;
  return value === dst.value && port === dstPort ? null : { dst: value, dstPort: port };
}

type Ports = Pick<Packet, 'srcPort' | 'dstPort'>;

function portsOf({ srcPort, dstPort }: Flow, protocol: number): Ports | null {
  if (!PORT_PROTOCOLS.includes(protocol)) return {};
  return srcPort === undefined || dstPort === undefined ? null : { srcPort, dstPort };
}

type Types = Pick<Packet, 'type' | 'code'>;

function typesOf({ icmpType, icmpCode, igmpType }: Flow, protocol: number): Types | null {
  if (!TYPE_PROTOCOLS.includes(protocol)) return {};
  if (protocol === PROTOCOLS.igmp) return igmpType === undefined ? null : { type: igmpType };
  return icmpType === undefined || icmpCode === undefined ? null : { type: icmpType, code: icmpCode };
}

function isMulticast({ family, value }: Address): boolean {
  return family === 4 ? value >> 28n === 14n || value === 0xffff_ffffn : value >> 120n === 0xffn;
}

function isLocal({ family, value }: Address, own: readonly string[]): boolean {
  if (family === 4 ? value >> 24n === 127n : value === 1n) return true;
  return own.some((text) => {
    const address = parseAddress(text);
    return address?.family === family && address.value === value;
  });
}

/**
 * A flow that leaves it open matches no rule that asks: it comes by an interface of a group that no
 * rule names.
 */
const NOBODYS_GROUP = 4_000_000_000;

function toGroup(group: Flow['interfaceGroup'], { interfaceGroups }: Config): number {
  return typeof group === 'string' ? (interfaceGroups[group] ?? 0) : (group ?? NOBODYS_GROUP);
}
