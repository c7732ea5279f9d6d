import { Option } from 'commander';
import { PROTOCOL_NUMBERS } from '../apis/flow.ts';
import { parseAddress } from '../lib/net/address.ts';
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
  readonly egress?: boolean;
  readonly line?: string;
}

const PLACES = ['from', 'fromPort', 'to', 'toPort'] as const;
const KEYS = [...PLACES, 'protocol', 'icmp', 'nodeport', 'egress', 'line'] as const;

/** The options of FlowWords; none of them goes with one of `others`. */
export function flowWords(others: readonly string[]): Option[] {
  const options = [
    new Option('--from <address>', 'where the connection comes from'),
    new Option('--from-port <port>', 'its port there'),
    new Option('--to <address>', 'where it goes to'),
    new Option('--to-port <port>', 'its port there, of TCP unless it says otherwise: 22, tcp/22, udp/53'),
    new Option('--protocol <protocol>', 'tcp, udp, sctp, icmp, icmpv6, igmp, or a number from 0 to 255'),
    new Option('--icmp <type>', 'ICMP, or ICMPv6 between addresses of IPv6: echo-request, or a number'),
    new Option('--nodeport', 'it is for a NodePort, external IP or host port, with the address before NAT'),
    new Option('--egress', 'the Node begins it; without, it comes to the Node'),
    new Option('--line <text>', "a line of nodewall's log or of conntrack; other options go before it"),
  ];
  return options.map((option) => option.conflicts([...others]));
}

/**
 * The flow of the words, as JSON has it (apis/flow.ts); null: no word was given. Throws a
 * CommandError that names the option at fault.
 */
export function flowOfWords(words: FlowWords): object | null {
  if (KEYS.every((key) => words[key] === undefined)) return null;
  const { line, egress, nodeport, from, to, icmp } = words;
  const given = line === undefined ? {} : flowOfLine(line, egress === true);
  const [there, here] = [toPort('--to-port', words.toPort), toPort('--from-port', words.fromPort)];
  const flow = {
    direction: 'ingress',
    ...given,
    ...present({
      direction: egress === true ? 'egress' : undefined,
      traffic: nodeport === true ? 'NodePort' : undefined,
      src: from === undefined ? undefined : toAddress('--from', from),
      dst: to === undefined ? undefined : toAddress('--to', to),
      protocol: protocolOf(words, [there?.protocol, here?.protocol]),
      srcPort: here?.port,
      dstPort: there?.port,
    }),
  };
  if (icmp !== undefined) return { ...flow, ...icmpFields(icmp, flow) };
  const hasPort = there !== null || here !== null;
  return hasPort && !('protocol' in flow) ? { ...flow, protocol: 'tcp' } : flow;
}

/** Fields that are read here; the rest of a flow is passed on. */
interface FlowFields {
  readonly src?: string;
  readonly dst?: string;
}

function toAddress(option: string, text: string): string {
  if (parseAddress(text) === null) throw usage(option, text, 'an IP address such as 198.51.100.7');
  return text;
}

function toProtocol(text: string): string | number {
  return /^\d+$/.test(text) ? Number(text) : text.toLowerCase();
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
  const own = protocol === undefined ? undefined : toProtocol(protocol);
  const named = new Set([own, ...ofPorts].filter((one) => one !== undefined));
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

function icmpFields(text: string, { src, dst }: FlowFields): object {
  const isV6 = [src, dst].some((address) => address?.includes(':'));
  const isV4 = !isV6 && (src !== undefined || dst !== undefined);
  if (/^\d+$/.test(text)) return { protocol: isV6 ? 'icmpv6' : 'icmp', icmpType: Number(text) };
  const [v4, v6] = (Object.hasOwn(ICMP_TYPES, text) ? ICMP_TYPES[text] : undefined) ?? [null, null];
  if (v4 !== null && !isV6) return { protocol: 'icmp', icmpType: v4 };
  if (v6 !== null && !isV4) return { protocol: 'icmpv6', icmpType: v6 };
  throw usage('--icmp', text, `a number, or one of ${Object.keys(ICMP_TYPES).join(', ')}`);
}

/** Reads a line of `nodewall log`, of records.jsonl, or of `conntrack -L`. */
function flowOfLine(line: string, isEgress: boolean): FlowFields {
  const flow = ofRecord(line) ?? ofLogText(line) ?? ofConntrack(line, isEgress);
  if (flow !== null) return flow;
  throw usage('--line', line, "a line of 'nodewall log', of records.jsonl, or of 'conntrack -L'");
}

/** Fields of a record that say what the connection is. */
const RECORDED = [
  ...['direction', 'src', 'dst', 'protocol', 'srcPort', 'dstPort', 'icmpType', 'icmpCode', 'igmpType'],
  ...['traffic', 'interfaceGroup', 'originalDst', 'originalDstPort'],
] as const;

function ofRecord(line: string): FlowFields | null {
  if (!line.trimStart().startsWith('{')) return null;
  try {
    const record: Readonly<Record<string, unknown>> = JSON.parse(line);
    return Object.fromEntries(RECORDED.flatMap((key) => (key in record ? [[key, record[key]]] : [])));
  } catch {
    return null;
  }
}

/** As cli/record-text.ts writes it: DIRECTION PROTOCOL [TYPE[/CODE]] SOURCE → DESTINATION. */
function ofLogText(line: string): FlowFields | null {
  const words = line.split(/\s+/);
  const start = words.findIndex((word) => word === 'ingress' || word === 'egress');
  const arrow = words.indexOf('→', start);
  const [from, to] = [words[arrow - 1], words[arrow + 1]];
  if (start === -1 || arrow < start + 3 || from === undefined || to === undefined) return null;
  const protocol = words[start + 1] ?? '';
  const [type, code] = arrow === start + 4 ? (words[start + 2]?.split('/') ?? []) : [];
  const [src, dst] = [toEnd(from), toEnd(to)];
  return present({
    direction: words[start],
    protocol: toProtocol(protocol),
    [protocol === 'igmp' ? 'igmpType' : 'icmpType']: toNumber(type),
    icmpCode: toNumber(code),
    src: src.address,
    srcPort: src.port,
    dst: dst.address,
    dstPort: dst.port,
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
function ofConntrack(line: string, isEgress: boolean): FlowFields | null {
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
