import { isIPv4, isIPv6 } from 'node:net';
import type { SetDefinition, SetFamily } from '../../lib/operation.ts';

export type SetType = SetDefinition['type'];

/**
 * A refusal of the fake, with ipset's exit code and text: 1 where library or kernel refuse, 2 for
 * arguments that don't fit.
 */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly exitCode: 1 | 2;
  constructor(message: string, exitCode: 1 | 2 = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

export const NO_SUCH_SET = 'The set with the given name does not exist';

export function syntax(text: string): Refusal {
  return new Refusal(`Syntax error: ${text}`);
}

/** A set's header, as far as it says how elements are. */
export interface ElementRules {
  readonly type: SetType;
  readonly family: SetFamily;
}

/** An address with the bits of its prefix. */
interface Prefix {
  readonly address: bigint;
  readonly length: number;
}

/** One element as ipset prints it, or those that a range of addresses or ports stands for. */
export function expandElements(rules: ElementRules, text: string): string[] {
  const [address = '', port, ...more] = text.split(',');
  const hasPort = rules.type === 'hash:ip,port';
  if (hasPort && port === undefined) throw syntax(`Second element is missing from ${text}.`);
  if (more.length > 0 || (!hasPort && port !== undefined))
    throw syntax(`Elements cannot be separated in ${text}`);
  const first =
    rules.type === 'hash:net'
      ? networks(rules, address).map((net) => prefixText(rules.family, net))
      : addresses(rules, address).map((one) => addressText(rules.family, one));
  if (port === undefined) return first;
  return first.flatMap((one) => ports(rules, port).map((each) => `${one},${each}`));
}

function bitsOf(family: SetFamily): number {
  return family === 'inet' ? 32 : 128;
}

function parseSetAddress(family: SetFamily, text: string): bigint {
  if (!(family === 'inet' ? isIPv4 : isIPv6)(text)) {
    throw syntax(`cannot parse ${text}: resolving to ${family === 'inet' ? 'IPv4' : 'IPv6'} address failed`);
  }
  if (family === 'inet') return text.split('.').reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
  const [, dotted = ''] = /:(\d+\.\d+\.\d+\.\d+)$/.exec(text) ?? [];
  const low = dotted === '' ? 0n : parseSetAddress('inet', dotted);
  const plain = text.replace(
    dotted,
    dotted === '' ? '' : `${(low >> 16n).toString(16)}:${(low & 0xffffn).toString(16)}`,
  );
  const [before = '', after] = plain.split('::');
  const words = (part: string) => (part === '' ? [] : part.split(':'));
  const head = words(before);
  const tail = words(after ?? '');
  const zeros = Array.from({ length: 8 - head.length - tail.length }, () => '0');
  return [...head, ...zeros, ...tail].reduce((sum, word) => sum * 65_536n + BigInt(`0x${word}`), 0n);
}

function addressText(family: SetFamily, address: bigint): string {
  const take = (bits: bigint, count: number) =>
    Array.from(
      { length: count },
      (_, i) => (address >> (bits * BigInt(count - 1 - i))) & ((1n << bits) - 1n),
    );
  if (family === 'inet') return take(8n, 4).join('.');
  const words = take(16n, 8).map((word) => word.toString(16));
  // As inet_ntop(3): the first of the longest runs of zeros, if longer than one.
  const runs = words.map((_, at) => words.slice(at).findIndex((word) => word !== '0'));
  const lengths = runs.map((run, at) => (run < 0 ? words.length - at : run));
  const longest = Math.max(...lengths);
  if (longest < 2) return words.join(':');
  const at = lengths.indexOf(longest);
  // ::1.2.3.4 and ::ffff:1.2.3.4
  if (at === 0 && (longest === 6 || (longest === 5 && words[5] === 'ffff'))) {
    return `${longest === 6 ? '::' : '::ffff:'}${addressText('inet', address & 0xffff_ffffn)}`;
  }
  return `${words.slice(0, at).join(':')}::${words.slice(at + longest).join(':')}`;
}

function maskOf(family: SetFamily, length: number): bigint {
  const bits = BigInt(bitsOf(family));
  return ((1n << BigInt(length)) - 1n) << (bits - BigInt(length));
}

function prefixText(family: SetFamily, { address, length }: Prefix): string {
  const text = addressText(family, address);
  return length === bitsOf(family) ? text : `${text}/${length}`;
}

function toPrefix(family: SetFamily, text: string): Prefix {
  const [ip = '', cidr] = text.split('/');
  const length = cidr === undefined ? bitsOf(family) : Number(cidr);
  if (length > bitsOf(family)) throw syntax(`'${cidr}' is out of range 0-${bitsOf(family)}`);
  return { address: parseSetAddress(family, ip) & maskOf(family, length), length };
}

/** First and last address of `from-to`, `ip/cidr` or an address. */
function toSpan(family: SetFamily, text: string): [bigint, bigint] {
  const [from = '', to] = text.split('-');
  if (to !== undefined) {
    const ends = [parseSetAddress(family, from), parseSetAddress(family, to)] as const;
    return ends[0] <= ends[1] ? [ends[0], ends[1]] : [ends[1], ends[0]];
  }
  const { address, length } = toPrefix(family, text);
  return [address, address | (maskOf(family, bitsOf(family)) ^ maskOf(family, length))];
}

/** In one range; the kernel has no such limit. */
const MAX_ADDRESSES = 65_536n;

function addresses(rules: ElementRules, text: string): bigint[] {
  const { type, family } = rules;
  if (/[/-]/.test(text) && family === 'inet6') {
    throw syntax(`plain IP address must be supplied: ${text}`);
  }
  const [from, to] = toSpan(family, text);
  if (to - from >= MAX_ADDRESSES)
    throw new RangeError(`the fake does not expand ${text}: too many addresses`);
  if (type === 'hash:ip' && from === 0n) {
    throw new Refusal('Null-valued element, cannot be stored in a hash type of set');
  }
  return Array.from({ length: Number(to - from) + 1 }, (_, i) => from + BigInt(i));
}

function networks({ family }: ElementRules, text: string): Prefix[] {
  const found = text.includes('-') ? covering(toSpan(family, text)) : [toPrefix(family, text)];
  if (found.some(({ length }) => length === 0)) {
    throw new Refusal('The value of the CIDR parameter of the IP address is invalid');
  }
  return found;
}

/** The IPv4 networks that make up a span, the largest that fit from its beginning on. */
function covering([from, to]: readonly [bigint, bigint]): Prefix[] {
  const found: Prefix[] = [];
  for (let at = from; at <= to; ) {
    let bits = 0n;
    while (bits < 32n && at % (2n << bits) === 0n && at + (2n << bits) - 1n <= to) bits++;
    found.push({ address: at, length: Number(32n - bits) });
    at += 1n << bits;
  }
  return found;
}

/** As ipset prints them. */
const PROTOCOLS: Readonly<Record<string, string>> = {
  '6': 'tcp',
  '17': 'udp',
  '132': 'sctp',
  '136': 'udplite',
  '1': 'icmp',
  '58': 'ipv6-icmp',
  icmpv6: 'ipv6-icmp',
  '47': 'gre',
  '50': 'esp',
};
const WITH_PORTS = ['tcp', 'udp', 'sctp', 'udplite'];
const ICMP_NAMES: Readonly<Record<string, string>> = {
  'icmp:8/0': 'echo-request',
  'icmp:0/0': 'echo-reply',
  'ipv6-icmp:128/0': 'echo-request',
  'ipv6-icmp:129/0': 'echo-reply',
};

function ports({ family }: ElementRules, text: string): string[] {
  const [name, numbers] = text.includes(':') ? text.split(':') : ['tcp', text];
  const protocol = PROTOCOLS[name ?? ''] ?? name ?? '';
  if (protocol.endsWith('icmp')) {
    if ((protocol === 'icmp') !== (family === 'inet')) {
      const [label, wanted] = protocol === 'icmp' ? ['ICMP', 'inet'] : ['ICMPv6', 'inet6'];
      throw syntax(`Protocol ${label} can be used with family ${wanted} only`);
    }
    return [`${protocol}:${ICMP_NAMES[`${protocol}:${numbers}`] ?? numbers}`];
  }
  const [from = 0, to = from] = (numbers ?? '').split('-').map(Number);
  for (const port of [from, to]) {
    if (!(port <= 65_535)) throw syntax(`'${port}' is out of range 0-65535`);
  }
  if (!WITH_PORTS.includes(protocol)) {
    if (from !== 0) throw syntax(`Protocol ${protocol} can be used with pseudo port value 0 only.`);
    return [`${protocol}:0`];
  }
  const [low, high] = from <= to ? [from, to] : [to, from];
  return Array.from({ length: high - low + 1 }, (_, i) => `${protocol}:${low + i}`);
}
