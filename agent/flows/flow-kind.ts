import type { Config } from '../../apis/config.ts';
import type { Flow, Verdict } from '../../apis/flow.ts';
import type { Direction } from '../../apis/objects.ts';
import { PROTOCOL_NUMBERS } from '../../apis/protocols.ts';
import { formatCidr, parseAddress, parseCidr } from '../../lib/net/address.ts';
import type { ConnectionRecord, SpoofedRecord } from '../record/record.ts';

/** A connection of this node, or a packet that a rule denied. */
export interface SeenFlow {
  readonly direction: Direction;
  readonly traffic: 'Host' | 'NodePort';
  /** IP protocol number. */
  readonly protocol: number;
  /** The other end, as rules test it: an address. */
  readonly peer: string;
  /** The server's port; null: the protocol has none. */
  readonly port: number | null;
  /** ICMP type and code; null: another protocol. */
  readonly type: number | null;
  readonly code: number | null;
  /** Link group of the interface; 0: none. */
  readonly group: number;
  /** The verdict on it. */
  readonly verdict: Verdict;
  /** The rest is of this one flow alone, and tells no kinds apart. */
  readonly local: string;
  readonly srcPort: number | null;
  /** Before destination NAT; null: the same. */
  readonly originalDst: string | null;
  readonly originalPort: number | null;
}

/** How much of a flow its kind names. */
export interface KindFold {
  /** `network`: the /24 (IPv4) or /64 (IPv6) of the peer. `all`: every address of the family. */
  readonly peers: 'address' | 'network' | 'all';
  /** Ports, or types and codes. */
  readonly ports: 'own' | 'all';
}

export const EXACT: KindFold = { peers: 'address', ports: 'own' };

/** Flows that are not told apart. Times are in milliseconds since 1970. */
export interface FlowKind {
  readonly key: string;
  readonly fold: KindFold;
  /** An address or a CIDR. */
  readonly peer: string;
  /** The last one of the kind. */
  last: SeenFlow;
  readonly firstSeen: number;
  lastSeen: number;
  connections: number;
  /**
   * Connections that the kernel tracked when it was last asked; null: it was not since the start.
   */
  live: number | null;
  /** The inventory has left it out. */
  isGone: boolean;
}

/** The network that stands for an address. */
const PREFIX = { 4: 24, 6: 64 } as const;

/** The peer of a kind. Throws a TypeError if the flow's peer is not an address. */
export function foldedPeer(peer: string, fold: KindFold['peers']): string {
  if (fold === 'address') return peer;
  const address = parseAddress(peer);
  if (address === null) throw new TypeError(`${peer} is not an address`);
  if (fold === 'all') return address.family === 4 ? '0.0.0.0/0' : '::/0';
  const network = parseCidr(`${peer}/${PREFIX[address.family]}`);
  return network === null ? peer : formatCidr(network.cidr);
}

/** The text that tells a kind from others. */
export function kindKey(flow: SeenFlow, { peers, ports }: KindFold): string {
  return `${kindServiceKey(flow, ports)} ${foldedPeer(flow.peer, peers)}`;
}

/** Whether a text has the form of a key. */
export function isKindKey(text: string): boolean {
  return /^[ie][HN][ADR][46] \d{1,3} \d{1,10} [\w.*]{1,12} [\da-f.:/]{2,43}$/.test(text);
}

/** Kinds that differ in their peers alone have the same; of one family. */
export function kindServiceKey(flow: SeenFlow, ports: KindFold['ports']): string {
  const port = ports === 'all' ? '*' : `${flow.port ?? `${flow.type}.${flow.code}`}`;
  return `${commonKey(flow)} ${port}`;
}

/** Kinds that differ in their ports alone have the same. */
export function peerKey(flow: SeenFlow): string {
  return `${commonKey(flow)} ${flow.peer}`;
}

function commonKey({ direction, traffic, verdict, protocol, peer, group }: SeenFlow): string {
  const family = peer.includes(':') ? 6 : 4;
  return `${direction[0]}${traffic[0]}${verdict[0]}${family} ${protocol} ${group}`;
}

/**
 * The flow that rules are asked about for a kind: the last that was seen. For a folded kind it is
 * one of many, and rules may decide otherwise about the others.
 */
export function flowOfKind({ last }: Pick<FlowKind, 'last'>): Flow {
  const { direction, traffic, protocol, peer, local, port, srcPort, type, code, group } = last;
  const [src, dst] = direction === 'ingress' ? [peer, local] : [local, peer];
  const isIgmp = protocol === PROTOCOL_NUMBERS.igmp;
  return {
    direction,
    traffic,
    src,
    dst,
    protocol,
    interfaceGroup: group,
    ...(srcPort === null ? {} : { srcPort }),
    ...(port === null ? {} : { dstPort: port }),
    ...(last.originalDst === null ? {} : { originalDst: last.originalDst }),
    ...(last.originalPort === null ? {} : { originalDstPort: last.originalPort }),
    ...(type === null ? {} : isIgmp ? { igmpType: type } : { icmpType: type }),
    ...(code === null ? {} : { icmpCode: code }),
  };
}

/**
 * The flow that a record of the flow log says a rule denied; null: none did, or the packet could
 * not be parsed. The source of a spoofed packet is false.
 */
export function toDeniedFlow(
  record: ConnectionRecord | SpoofedRecord,
  { interfaceGroups }: Config,
): SeenFlow | null {
  if (record.reason === 'spoofed') return null;
  const { verdict, audit, event, direction, traffic, src, dst, protocol } = record;
  if (verdict !== 'Drop' && verdict !== 'Reject') return null;
  if (audit === true || event !== undefined) return null;
  if (src === undefined || dst === undefined || protocol === undefined) return null;
  const { srcPort, dstPort, icmpType, igmpType, icmpCode, interfaceGroup = 0 } = record;
  const { originalDst = null, originalDstPort = null } = record;
  const isNodePort = traffic === 'NodePort';
  // Rules for NodePorts test the port that the client used, which not every kernel tells.
  const [to, port] = isNodePort ? [originalDst ?? dst, originalDstPort] : [dst, dstPort];
  return {
    direction,
    traffic: isNodePort ? 'NodePort' : 'Host',
    protocol: typeof protocol === 'number' ? protocol : PROTOCOL_NUMBERS[protocol],
    peer: direction === 'ingress' ? src : dst,
    port: port ?? null,
    type: icmpType ?? igmpType ?? null,
    code: icmpCode ?? null,
    group: typeof interfaceGroup === 'number' ? interfaceGroup : (interfaceGroups[interfaceGroup] ?? 0),
    verdict,
    local: direction === 'ingress' ? to : src,
    srcPort: srcPort ?? null,
    originalDst: isNodePort ? null : originalDst,
    originalPort: isNodePort ? null : originalDstPort,
  };
}
