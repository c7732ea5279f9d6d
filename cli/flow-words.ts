import { Option } from 'commander';
import type { ConnectionOptions } from '../agent/record/record-filter.ts';
import { PROTOCOL_NUMBERS } from '../apis/flow.ts';
import { namedProtocolNumber } from '../apis/ip-protocols.ts';
import { formatCidr, ipv4Of, parseAddress, parseCidr, unmappedText } from '../lib/net/address.ts';
import { CommandError, EXIT } from '../lib/process/exit.ts';
import { present } from '../lib/sharing/present.ts';

/** A connection in words, by options of a command. */
export interface FlowWords {
  readonly from?: string;
  readonly fromPort?: string;
  readonly to?: string;
  readonly toPort?: string;
  readonly protocol?: string;
  readonly icmp?: string;
  readonly nodeport?: boolean;
  readonly ingress?: boolean;
  readonly egress?: boolean;
  readonly line?: string;
}

const KEYS = [
  ...['from', 'fromPort', 'to', 'toPort', 'protocol', 'icmp', 'nodeport', 'ingress', 'egress', 'line'],
] as readonly (keyof FlowWords)[];

/** Options that several forms of the words share. */
const SHARED = {
  icmp: 'ICMP, or ICMPv6 between addresses of IPv6 or with --protocol icmpv6: echo-request, or a number',
  line: "a line of nodewall's log or of conntrack; other options go before it",
  protocol: 'tcp, udp, icmp, ospf, vrrp, gre, …, or a number from 0 to 255',
  toPort: 'of TCP unless it says otherwise: 22, tcp/22, udp/53',
} as const;

/** The options of FlowWords for one connection; none of them goes with one of `others`. */
export function flowWords(others: readonly string[]): Option[] {
  const options = [
    new Option('--from <address>', 'where the connection comes from'),
    new Option('--from-port <port>', 'its port there'),
    new Option('--to <address>', 'where it goes to'),
    new Option('--to-port <port>', `its port there, ${SHARED.toPort}`),
    new Option('--protocol <protocol>', SHARED.protocol),
    new Option('--icmp <type>', SHARED.icmp),
    new Option('--nodeport', 'it is for a NodePort, external IP or host port, with the address before NAT'),
    new Option('--ingress', 'it comes to the Node, as without this').conflicts('egress'),
    new Option('--egress', 'the Node begins it'),
    new Option('--line <text>', SHARED.line),
  ];
  return options.map((option) => option.conflicts([...others]));
}

/** The same words as a filter, where connections that are known have ports of their own. */
export function filterWords(): Option[] {
  const [from, ...others] = kindWords();
  return [from, new Option('--from-port <port>', 'only with this port there'), ...others].filter(
    (option) => option !== undefined,
  );
}

/** The same words as a filter of kinds of flows, which clients' ports do not tell apart. */
export function kindWords(): Option[] {
  return [
    new Option('--from <cidr>', 'only from this address or CIDR'),
    new Option('--to <cidr>', 'only to this address or CIDR'),
    new Option('--to-port <port>', `only with this port there, ${SHARED.toPort}`),
    new Option('--protocol <protocol>', `only this one: ${SHARED.protocol}`),
    new Option('--icmp <type>', `only ${SHARED.icmp}`),
    new Option('--nodeport', 'only for NodePorts, external IPs and host ports, with addresses before NAT'),
    new Option('--ingress', 'only what comes to the Node').conflicts('egress'),
    new Option('--egress', 'only what the Node begins'),
    new Option('--line <text>', `only what is as in ${SHARED.line}`),
  ];
}

/**
 * The flow of the words, as JSON has it (apis/flow.ts); null: no word was given. Throws a
 * CommandError that names the option at fault.
 */
export function flowOfWords(words: FlowWords): object | null {
  return hasWords(words) ? { direction: 'ingress', ...fieldsOf(words, toAddress) } : null;
}

function hasWords(words: FlowWords): boolean {
  return KEYS.some((key) => words[key] !== undefined);
}

/**
 * The conditions of the words on records of connections, as their filter has them; none without a
 * word. Throws as `flowOfWords` does.
 */
export function filterOfWords(words: FlowWords): ConnectionOptions {
  if (!hasWords(words)) return {};
  const { dstPort: port, protocol, ...fields } = fieldsOf(words, toNetwork);
  const [name = protocol] = Object.entries(PROTOCOL_NUMBERS).find(([, number]) => number === protocol) ?? [];
  const { direction, src, dst, srcPort, icmpType, icmpCode, igmpType } = fields;
  // That of a line is a guess, or follows from its addresses.
  const traffic = words.nodeport === true ? 'NodePort' : undefined;
  const ends = { src, dst, srcPort, port };
  const known = present({ direction, traffic, ...ends, protocol: name, icmpType, icmpCode, igmpType });
  // Without a condition a filter lets everything through, and `flush` would end it.
  if (Object.keys(known).length === 0) throw usage('--line', words.line ?? '', NAMES_CONNECTION);
  return Object.fromEntries(Object.entries(known).map(([key, value]) => [key, String(value)]));
}

/**
 * The same for kinds of flows. Of a line, what kinds do not tell apart is left out: the client's
 * port and the Node's own address. Its direction is as for `flowOfWords`.
 */
export function kindFilterOfWords(words: FlowWords): ConnectionOptions {
  const { srcPort: _, src, dst, ...others } = filterOfWords(words);
  if (words.line === undefined) return { ...others, ...present({ src, dst }) };
  const { direction = 'ingress' } = others;
  const isEgress = direction === 'egress';
  return {
    ...others,
    direction,
    ...present({
      src: isEgress && words.from === undefined ? undefined : src,
      dst: isEgress || words.to !== undefined ? dst : undefined,
    }),
  };
}

/** Fields of a flow; those that are only passed on are not named. */
interface FlowFields {
  readonly direction?: unknown;
  readonly traffic?: unknown;
  readonly src?: string;
  readonly dst?: string;
  readonly protocol?: string | number;
  readonly srcPort?: number;
  readonly dstPort?: number;
  readonly icmpType?: number;
  readonly icmpCode?: number;
  readonly igmpType?: number;
}

/** @param toEnd reads what --from and --to name */
function fieldsOf(words: FlowWords, toEnd: (option: string, text: string) => string): FlowFields {
  const { line, egress, ingress, nodeport, from, to, icmp } = words;
  const given = line === undefined ? {} : flowOfLine(line, egress === true);
  const [there, here] = [toPort('--to-port', words.toPort), toPort('--from-port', words.fromPort)];
  const protocol = protocolOf(words, [there?.protocol, here?.protocol]);
  const flow: FlowFields = {
    ...given,
    ...present({
      direction: egress === true ? 'egress' : ingress === true ? 'ingress' : undefined,
      traffic: nodeport === true ? 'NodePort' : undefined,
      src: from === undefined ? undefined : toEnd('--from', from),
      dst: to === undefined ? undefined : toEnd('--to', to),
      protocol,
      srcPort: here?.port,
      dstPort: there?.port,
    }),
  };
  if (icmp !== undefined) return { ...flow, ...icmpFields(icmp, flow, protocol) };
  const hasPort = there !== null || here !== null;
  return hasPort && !('protocol' in flow) ? { ...flow, protocol: 'tcp' } : flow;
}

function toAddress(option: string, text: string): string {
  if (parseAddress(text) === null) throw usage(option, text, 'an IP address such as 198.51.100.7');
  return unmappedText(text);
}

function toNetwork(option: string, text: string): string {
  if (parseAddress(text) !== null) return unmappedText(text);
  const cidr = parseCidr(text)?.cidr;
  if (cidr === undefined) throw usage(option, text, 'an address or a CIDR, as in 10.0.0.0/8 or fd00::1');
  const mapped = ipv4Of(cidr);
  return mapped === null ? text : formatCidr(mapped);
}

function toProtocol(text: string): string | number {
  return /^\d+$/.test(text) ? Number(text) : text.toLowerCase();
}

/** A record has the number where a line of it has the name. */
function loggedProtocol(text: string): string | number {
  const protocol = toProtocol(text);
  return Object.hasOwn(PROTOCOL_NUMBERS, protocol) ? protocol : (namedProtocolNumber(protocol) ?? protocol);
}

function checkedProtocol(text: string): string | number {
  const protocol = toProtocol(text);
  const number = namedProtocolNumber(protocol);
  if (number === undefined || number > 255)
    throw usage('--protocol', text, SHARED.protocol.replace('tcp', 'one of tcp'));
  return Object.hasOwn(PROTOCOL_NUMBERS, protocol) ? protocol : number;
}

interface PortInWords {
  readonly port: number;
  readonly protocol?: string;
}

/** `tcp/22` and `22/tcp` name the same. */
function toPort(option: string, text: string | undefined): PortInWords | null {
  if (text === undefined) return null;
  const [, before, port, after] = /^(?:([a-z]+)\/)?(\d{1,5})(?:\/([a-z]+))?$/i.exec(text) ?? [];
  if (port === undefined || Number(port) > 65_535 || (before !== undefined && after !== undefined))
    throw usage(option, text, 'a port such as 22, tcp/22 or udp/53');
  return { port: Number(port), ...present({ protocol: (before ?? after)?.toLowerCase() }) };
}

/** The one that the words name; undefined: none. */
function protocolOf(
  { protocol }: FlowWords,
  ofPorts: readonly (string | undefined)[],
): string | number | undefined {
  const named = new Set(
    [protocol, ...ofPorts].flatMap((one) => (one === undefined ? [] : checkedProtocol(one))),
  );
  if (named.size > 1)
    throw new CommandError(EXIT.usage, `a connection has one protocol, not ${[...named].join(' and ')}`);
  return [...named][0];
}

/** Types of ICMP and of ICMPv6 (IANA); null: that one has none of the name. */
const ICMP_TYPES: Readonly<Record<string, readonly [v4: number | null, v6: number | null]>> = {
  'echo-request': [8, 128],
  'echo-reply': [0, 129],
  'destination-unreachable': [3, 1],
  'packet-too-big': [null, 2],
  'time-exceeded': [11, 3],
  'parameter-problem': [12, 4],
  redirect: [5, 137],
  'router-solicitation': [10, 133],
  'router-advertisement': [9, 134],
  'neighbour-solicitation': [null, 135],
  'neighbour-advertisement': [null, 136],
};

function icmpFields(text: string, { src, dst }: FlowFields, protocol: string | number | undefined): object {
  if (protocol !== undefined && protocol !== 'icmp' && protocol !== 'icmpv6')
    throw usage('--icmp', text, `of protocol ${protocol}`);
  const isV6 = protocol === 'icmpv6' || [src, dst].some((address) => address?.includes(':'));
  const isV4 = !isV6 && (protocol === 'icmp' || src !== undefined || dst !== undefined);
  if (/^\d+$/.test(text)) return { protocol: isV6 ? 'icmpv6' : 'icmp', icmpType: Number(text) };
  const [v4, v6] = (Object.hasOwn(ICMP_TYPES, text) ? ICMP_TYPES[text] : undefined) ?? [null, null];
  if (v4 !== null && !isV6) return { protocol: 'icmp', icmpType: v4 };
  if (v6 !== null && !isV4) return { protocol: 'icmpv6', icmpType: v6 };
  throw usage('--icmp', text, `a number, or one of ${Object.keys(ICMP_TYPES).join(', ')}`);
}

const NAMES_CONNECTION = "a line of 'nodewall log', of records.jsonl, or of 'conntrack -L'";

/** Reads a line of `nodewall log`, of records.jsonl, or of `conntrack -L`. */
function flowOfLine(line: string, isEgress: boolean): RecordedFields {
  const flow = ofRecord(line) ?? ofLogText(line) ?? ofConntrack(line, isEgress);
  if (flow !== null) return beforeNat(flow);
  throw usage('--line', line, NAMES_CONNECTION);
}

interface RecordedFields extends FlowFields {
  readonly originalDst?: string;
  readonly originalDstPort?: number;
}

/** A record of NodePort traffic has the pod as destination; rules judge what the client used. */
function beforeNat(flow: RecordedFields): RecordedFields {
  const { originalDst, originalDstPort, dst, dstPort: _, ...others } = flow;
  const ends = Object.entries({ src: flow.src, dst, originalDst }).flatMap(([key, text]) =>
    typeof text === 'string' ? [[key, unmappedText(text)]] : [],
  );
  if (flow.traffic !== 'NodePort' || originalDst === undefined)
    return { ...flow, ...Object.fromEntries(ends) };
  return { ...others, ...present({ dst: unmappedText(originalDst), dstPort: originalDstPort }) };
}

/** Fields of a record that say what the connection is. */
const RECORDED = [
  ...['direction', 'src', 'dst', 'protocol', 'srcPort', 'dstPort', 'icmpType', 'icmpCode', 'igmpType'],
  ...['traffic', 'interfaceGroup', 'originalDst', 'originalDstPort'],
] as const;

function ofRecord(line: string): RecordedFields | null {
  if (!line.trimStart().startsWith('{')) return null;
  try {
    const record: Readonly<Record<string, unknown>> = JSON.parse(line);
    return Object.fromEntries(RECORDED.flatMap((key) => (key in record ? [[key, record[key]]] : [])));
  } catch {
    return null;
  }
}

/**
 * As cli/record-text.ts writes it: DIRECTION PROTOCOL [TYPE[/CODE]] SOURCE → DESTINATION, then
 * `(for DESTINATION)` with the one before NAT.
 */
function ofLogText(line: string): RecordedFields | null {
  const words = line.split(/\s+/);
  const start = words.findIndex((word) => word === 'ingress' || word === 'egress');
  const arrow = words.indexOf('→', start);
  const [from, to] = [words[arrow - 1], words[arrow + 1]];
  if (start === -1 || arrow < start + 3 || from === undefined || to === undefined) return null;
  const protocol = words[start + 1] ?? '';
  const [type, code] = arrow === start + 4 ? (words[start + 2]?.split('/') ?? []) : [];
  const [src, dst] = [toEnd(from), toEnd(to)];
  const asked = words[arrow + 2] === '(for' ? toEnd(words[arrow + 3]?.replace(/\)$/, '') ?? '') : undefined;
  return present({
    direction: words[start],
    protocol: loggedProtocol(protocol),
    [protocol === 'igmp' ? 'igmpType' : 'icmpType']: toNumber(type),
    icmpCode: toNumber(code),
    src: src.address,
    srcPort: src.port,
    dst: dst.address,
    dstPort: dst.port,
    originalDst: asked?.address,
    originalDstPort: asked?.port,
    traffic: words.includes('NodePort', arrow) ? 'NodePort' : undefined,
  });
}

/** `10.0.0.7:443`, `[2001:db8::1]:443`, or an address alone. */
function toEnd(text: string) {
  const [, v6, v4, port] = /^(?:\[([^\]]+)\]|([^:]+)):(\d+)$/.exec(text) ?? [];
  return { address: v6 ?? v4 ?? text, port: toNumber(port) };
}

const TUPLE = /\bsrc=(\S+) dst=(\S+)(?: sport=(\d+) dport=(\d+))?(?: type=(\d+) code=(\d+))?/g;
/** Its name and its number, behind what other columns there may be. */
const CONNTRACK_PROTOCOL = /^(?:\s*\[\w+\])*\s*(?:ipv[46]\s+\d+\s+)?([a-z][\w-]*)\s+(\d+)\s/;

/**
 * As conntrack(8) prints it: each direction has its ends, and where the second one's source is not
 * the first one's destination, destination NAT was done. To the Node that is NodePort traffic.
 */
function ofConntrack(line: string, isEgress: boolean): RecordedFields | null {
  const [, name = '', number] = CONNTRACK_PROTOCOL.exec(line) ?? [];
  const [original, reply] = [...line.matchAll(TUPLE)];
  if (number === undefined || original === undefined) return null;
  const [, src, dst, srcPort, dstPort, icmpType, icmpCode] = original;
  const [, after = dst, , afterPort = dstPort] = reply ?? [];
  const isTranslated = icmpType === undefined && (after !== dst || afterPort !== dstPort);
  const ends = isEgress ? { dst: after, dstPort: afterPort } : { dst, dstPort };
  return present({
    protocol: Object.hasOwn(PROTOCOL_NUMBERS, name) ? name : Number(number),
    src,
    srcPort: toNumber(srcPort),
    dst: ends.dst,
    dstPort: toNumber(ends.dstPort),
    icmpType: toNumber(icmpType),
    icmpCode: toNumber(icmpCode),
    ...(isTranslated && isEgress ? { originalDst: dst, originalDstPort: toNumber(dstPort) } : {}),
    traffic: isTranslated && !isEgress ? 'NodePort' : undefined,
  });
}

const toNumber = (text: string | undefined): number | undefined =>
  text === undefined ? undefined : Number(text);

function usage(option: string, text: string, wanted: string): CommandError {
  return new CommandError(EXIT.usage, `${option}: ${JSON.stringify(text)} is not ${wanted}`);
}
