import type { Config } from '../../apis/config.ts';
import { type Flow, PROTOCOL_NUMBERS, type Verdict } from '../../apis/flow.ts';
import { namedProtocolNumber } from '../../apis/ip-protocols.ts';
import type { Direction } from '../../apis/objects.ts';
import { BITS, type Cidr, covers, formatCidr, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import type { ConnectionRecord, SpoofedRecord } from '../record/record.ts';
import {
  CONNECTION_TEXTS,
  type ConnectionOptions,
  cidrOption,
  optionsQuery,
  queryOptions,
  timeOption,
  wholeNumber,
} from '../record/record-filter.ts';

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

/** The filter of `nodewall flows` as given on the command line; all conditions must hold. */
export interface FlowFilterOptions extends Omit<ConnectionOptions, 'srcPort'> {
  /** An address or a CIDR of the other end, in either direction. */
  readonly peer?: string;
  /** 30s, 10m, 2h or 7d ago, or a time. */
  readonly since?: string;
  /** The policy of the rule that decides. */
  readonly policy?: string;
  /** Only what was denied, or is now. */
  readonly denied?: boolean;
  /** Only what has connections now. */
  readonly live?: boolean;
  readonly lines?: string;
  /** Asks for pages: '' for the first one, then `continue` of the one before. */
  readonly continue?: string;
}

const TEXTS = [
  ...CONNECTION_TEXTS.filter((name) => name !== 'srcPort'),
  ...(['peer', 'since', 'policy', 'lines', 'continue'] as const),
];
const FLAGS = ['denied', 'live'] as const;

export interface FlowFilter {
  /** When it was asked, in milliseconds since 1970. */
  readonly now: number;
  readonly matches: (kind: FlowKind) => boolean;
  /** By what rules decide; null: any. */
  readonly policy: string | null;
  readonly isDenied: boolean;
  /** The most kinds of an answer. */
  readonly most: number;
  /** The key of the last kind before this page, '' for the first page. Null: no page. */
  readonly after: string | null;
}

/** Kinds of an answer: by default, and at most. */
const LINES = 200;
const MOST_LINES = 1_500;

export function toFlowQuery(options: FlowFilterOptions): URLSearchParams {
  return optionsQuery({ ...options }, TEXTS, FLAGS);
}

/** Throws a CommandError that names a parameter it does not know. */
export function fromFlowQuery(query: URLSearchParams): FlowFilterOptions {
  return queryOptions(query, { of: 'flows', texts: TEXTS, flags: FLAGS });
}

/**
 * `now` is in milliseconds since 1970. Throws a CommandError for an option that is not valid.
 */
export function toFlowFilter(options: FlowFilterOptions, now: number): FlowFilter {
  const { direction, traffic, policy = null, denied = false, live = false } = options;
  if (direction !== undefined && direction !== 'ingress' && direction !== 'egress')
    throw new CommandError(EXIT.usage, `direction: ${JSON.stringify(direction)}: must be ingress or egress`);
  const peer = options.peer === undefined ? null : cidrOption('--peer', options.peer);
  const [src, dst] = (['src', 'dst'] as const).map((end) => {
    const text = options[end];
    return text === undefined ? null : cidrOption(end, text);
  });
  const ends = { src: src ?? null, dst: dst ?? null };
  const port = options.port === undefined ? null : wholeNumber('port', options.port);
  const protocol = options.protocol === undefined ? null : protocolNumber(options.protocol);
  const since = options.since === undefined ? null : timeOption('--since', options.since, now);
  const { continue: after = null } = options;
  if (after !== null && after !== '' && !isKindKey(after))
    throw new CommandError(
      EXIT.usage,
      `continue: ${JSON.stringify(after)}: must be that of the page before, or empty for the first page`,
    );
  const lines = options.lines === undefined ? LINES : wholeNumber('--lines', options.lines);
  return {
    now,
    matches: (kind) =>
      (direction === undefined || kind.last.direction === direction) &&
      (peer === null || touches(peer, kind.peer)) &&
      isBetween(kind, ends) &&
      (traffic === undefined || kind.last.traffic === traffic) &&
      (port === null || kind.fold.ports === 'all' || kind.last.port === port) &&
      (protocol === null || kind.last.protocol === protocol) &&
      (kind.fold.ports === 'all' || isOfType(kind.last, options)) &&
      (since === null || kind.lastSeen >= since) &&
      (!live || (kind.live ?? 0) > 0),
    policy,
    isDenied: denied,
    most: Math.min(MOST_LINES, lines),
    after,
  };
}

function protocolNumber(text: string): number {
  const number = namedProtocolNumber(text) ?? wholeNumber('protocol', text);
  if (number <= 255) return number;
  throw new CommandError(EXIT.usage, `protocol: ${number}: must be at most 255`);
}

interface Ends {
  readonly src: Cidr | null;
  readonly dst: Cidr | null;
}

/** The Node's own end is that of the last flow of the kind. */
function isBetween({ peer, last }: FlowKind, { src, dst }: Ends): boolean {
  const [from, to] = last.direction === 'ingress' ? [peer, last.local] : [last.local, peer];
  return (src === null || touches(src, from)) && (dst === null || touches(dst, to));
}

function isOfType({ protocol, type, code }: SeenFlow, options: FlowFilterOptions): boolean {
  const { icmpType, icmpCode, igmpType } = options;
  const isIgmp = protocol === PROTOCOL_NUMBERS.igmp;
  const isOf = (wanted: string | undefined, value: number | null, of: boolean): boolean =>
    wanted === undefined || (of && String(value) === wanted);
  return isOf(icmpType, type, !isIgmp) && isOf(icmpCode, code, !isIgmp) && isOf(igmpType, type, isIgmp);
}

/** Whether some address is in both. */
function touches(wanted: Cidr, peer: string): boolean {
  const own = blockOf(peer);
  return own !== null && (covers(wanted, own) || covers(own, wanted));
}

function blockOf(text: string): Cidr | null {
  const address = parseAddress(text);
  return address === null ? (parseCidr(text)?.cidr ?? null) : { ...address, length: BITS[address.family] };
}
