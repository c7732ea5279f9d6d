import { isIPv4, isIPv6 } from 'node:net';
import { FIELDS, type Field } from '../../lib/entry.ts';
import type { SetFamily, SetType } from '../../lib/set.ts';

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
  /** The mask of an address before it is stored; null: none. */
  readonly mask: bigint | null;
  /** The numbers that a bitmap holds, first and last. */
  readonly range: readonly [bigint, bigint] | null;
}

/** An address with the bits of its prefix; null where the part is none. */
interface Prefix {
  readonly address: bigint;
  readonly length: number;
}

/** An element in ipset's own spelling, part by part. */
export interface Element {
  readonly parts: readonly string[];
  /** By part: what a network part covers. */
  readonly nets: readonly (Prefix | null)[];
}

/** One element, or those that a range of addresses or ports stands for. */
export function expandElements(rules: ElementRules, text: string): Element[] {
  const fields: readonly Field[] = FIELDS[rules.type];
  const texts = text.split(',');
  if (texts.length < fields.length && rules.type !== 'bitmap:ip,mac') {
    throw syntax(`Second element is missing from ${text}.`);
  }
  if (texts.length > fields.length) throw syntax(`Elements cannot be separated in ${text}`);
  let found: Element[] = [{ parts: [], nets: [] }];
  texts.forEach((part, index) => {
    const field = fields[index];
    if (field === undefined) return;
    const choices = toParts(rules, field, part);
    found = found.flatMap(({ parts, nets }) =>
      choices.map((choice) => ({ parts: [...parts, choice.text], nets: [...nets, choice.net] })),
    );
  });
  // Masked addresses fall together.
  return [...new Map(found.map((element) => [element.parts.join(), element])).values()];
}

interface Part {
  readonly text: string;
  readonly net: Prefix | null;
}

function toParts(rules: ElementRules, field: Field, text: string): Part[] {
  switch (field) {
    case 'ip':
    case 'ip2':
      return addresses(rules, text).map((address) => ({
        text: addressText(rules.family, address),
        net: null,
      }));
    case 'net':
    case 'net2':
      return networks(rules, text).map((net) => ({ text: prefixText(rules.family, net), net }));
    case 'port':
      return ports(rules, text).map((port) => ({ text: port, net: null }));
    case 'mac':
      return [{ text: text.toUpperCase(), net: null }];
    case 'mark':
    case 'iface':
    case 'set':
      return [{ text, net: null }];
  }
}

export function bitsOf(family: SetFamily): number {
  return family === 'inet' ? 32 : 128;
}

export function parseSetAddress(family: SetFamily, text: string): bigint {
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

export function maskOf(family: SetFamily, length: number): bigint {
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
export function toSpan(family: SetFamily, text: string): [bigint, bigint] {
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
  const { type, family, mask, range } = rules;
  if (/[/-]/.test(text) && (family === 'inet6' || type === 'bitmap:ip,mac')) {
    throw syntax(`plain IP address must be supplied: ${text}`);
  }
  const [from, to] = toSpan(family, text);
  if (range !== null && (from < range[0] || to > range[1]))
    throw new Refusal('Element is out of the range of the set');
  if (to - from >= MAX_ADDRESSES)
    throw new RangeError(`the fake does not expand ${text}: too many addresses`);
  const found = new Set<bigint>();
  for (let address = from; address <= to; address++) found.add(mask === null ? address : address & mask);
  if (type === 'hash:ip' && found.has(0n)) {
    throw new Refusal('Null-valued element, cannot be stored in a hash type of set');
  }
  return [...found];
}

function networks({ type, family, mask }: ElementRules, text: string): Prefix[] {
  const found = text.includes('-') ? covering(toSpan(family, text)) : [toPrefix(family, text)];
  if (type !== 'hash:net,iface' && found.some(({ length }) => length === 0)) {
    throw new Refusal('The value of the CIDR parameter of the IP address is invalid');
  }
  return mask === null ? found : found.map((net) => ({ ...net, address: net.address & mask }));
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

function ports({ type, family, range }: ElementRules, text: string): string[] {
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
  if (range !== null && (low < range[0] || high > range[1]))
    throw new Refusal('Element is out of the range of the set');
  const all = Array.from({ length: high - low + 1 }, (_, i) => low + i);
  return all.map((port) => (type === 'bitmap:port' ? String(port) : `${protocol}:${port}`));
}
