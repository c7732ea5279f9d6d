import type { PortRange } from '../../apis/compiled.ts';
import { type Family, formatAddress, formatCidr, formatMac } from '../../lib/net/address.ts';
import { unpackMachine32 } from '../../lib/net/bytes.ts';
import { toCidrs } from '../../lib/net/interval.ts';
import { formatFamily, unpackAddress } from '../../lib/net/member-set.ts';
import {
  type Chain,
  KEY_LENGTH,
  type L4Protocol,
  type Match,
  type MatchOf,
  type NamedSet,
  type NftRule,
  type PortTuple,
  type Ruleset,
  type Statement,
  TABLE,
} from './ruleset.ts';
import { type ChainVerdict, eachEntry, type VerdictMap } from './verdict-map.ts';

/**
 * The nft language (nft(8)). All text for nft is made here: this file checks names and quotes
 * comments.
 */

/**
 * The table as `nft list table` would print it, except for counters. It can be loaded with `nft
 * -f`, in one transaction.
 */
export function rulesetText(ruleset: Ruleset): string {
  const blocks = [
    ...[...ruleset.sets.values()].map((set) => block('set', set.name, setLines(set, true))),
    ...[...ruleset.maps.values()].map((map) => block('map', map.name, mapLines(map, true))),
    ...[...ruleset.chains.values()].map((chain) => block('chain', chain.name, chainLines(chain))),
  ];
  return `table ${TABLE.family} ${TABLE.name} {\n${blocks.join('\n')}}\n`;
}

function block(kind: string, name: string, lines: readonly string[]): string {
  return `\t${kind} ${identifier(name)} {\n${lines.map((line) => `\t\t${line}\n`).join('')}\t}\n`;
}

/** The declaration of a set. Members are optional, because apply adds them through netlink. */
export function setLines(set: NamedSet, withMembers: boolean): string[] {
  const address = set.family === 4 ? 'ipv4_addr' : 'ipv6_addr';
  const lines = [`type ${set.key === 'address' ? address : `${address} . inet_proto . inet_service`}`];
  if (set.interval) lines.push('flags interval');
  if (set.timed) lines.push('flags timeout');
  if (set.comment !== null) lines.push(`comment ${nftQuote(set.comment)}`);
  const members = withMembers ? memberTexts(set) : [];
  if (members.length > 0) lines.push(`elements = { ${members.join(', ')} }`);
  return lines;
}

function memberTexts({ key, family, members, timeout }: NamedSet): string[] {
  const until = timeout === undefined ? '' : ` timeout ${timeout / 1000}s`;
  if (key === 'address') return formatFamily({ family, ...members }).map((member) => `${member}${until}`);
  const { singles } = members;
  const packed = new DataView(singles.buffer, singles.byteOffset, singles.length);
  const width = KEY_LENGTH.service[family];
  return Array.from({ length: singles.length / width }, (_, i) => {
    const end = (i + 1) * width;
    const address = formatAddress(unpackAddress(family, singles, i * width));
    const protocol = PROTOCOL_NAMES[packed.getUint8(end - 8)];
    return `${address} . ${protocol} . ${packed.getUint16(end - 4)}`;
  });
}

/** inet_proto, by number. */
const PROTOCOL_NAMES: Readonly<Record<number, string>> = { 6: 'tcp', 17: 'udp', 132: 'sctp' };

export function mapLines(map: VerdictMap, withElements: boolean): string[] {
  const lines = [`${keyType(map)} : verdict`];
  if (map.interval) lines.push('flags interval');
  const elements = withElements ? entryTexts(map) : [];
  if (elements.length > 0) lines.push(`elements = { ${elements.join(', ')} }`);
  return lines;
}

function keyType({ key, family }: VerdictMap): string {
  switch (key) {
    case 'port':
      return 'type inet_service';
    case 'mark':
      return 'type mark';
    case 'address':
      return `type ipv${family}_addr`;
    case 'addressMac':
      return `type ipv${family}_addr . ether_addr`;
    case 'addressInnerMac':
      return `typeof ${family === 4 ? 'ip' : 'ip6'} saddr . ${INNER_MAC}`;
  }
}

function entryTexts(map: VerdictMap): string[] {
  const texts: string[] = [];
  eachEntry(map, (first, last, verdict) => {
    texts.push(`${keyText(map, first, last)} : ${chainVerdict(verdict)}`);
  });
  return texts;
}

function keyText({ key, family }: VerdictMap, first: Uint8Array, last: Uint8Array): string {
  if (key === 'mark') return markText(unpackMachine32(first));
  if (family === null) {
    return rangeText([(first[0] ?? 0) * 256 + (first[1] ?? 0), (last[0] ?? 0) * 256 + (last[1] ?? 0)]);
  }
  if (key === 'address') return addressRangeText(family, first, last);
  const mac = first.subarray(KEY_LENGTH.address[family]).subarray(0, 6);
  const text = key === 'addressMac' ? formatMac(mac) : `0x${Buffer.from(mac).toString('hex')}`;
  return `${formatAddress(unpackAddress(family, first, 0))} . ${text}`;
}

/**
 * The source MAC of the frame in a VXLAN packet: behind the headers of UDP and VXLAN, 8 bytes each,
 * and the destination's. nft has a name for it from 1.0.8, the kernel from 6.2 on.
 */
const INNER_MAC = '@th,176,48';

/** As nft prints marks. */
function markText(mark: number): string {
  return `0x${mark.toString(16).padStart(8, '0')}`;
}

function addressRangeText(family: Family, first: Uint8Array, last: Uint8Array): string {
  const from = unpackAddress(family, first, 0);
  const to = unpackAddress(family, last, 0);
  const [cidr, ...others] = toCidrs(family, { first: from.value, last: to.value });
  if (cidr !== undefined && others.length === 0) return formatCidr(cidr);
  return `${formatAddress(from)}-${formatAddress(to)}`;
}

export function chainLines(chain: Chain): string[] {
  return [...baseLines(chain), ...chain.rules.map(ruleText)];
}

/** The declaration of a base chain; empty for other chains. */
export function baseLines({ base }: Chain): string[] {
  if (base === null) return [];
  return [`type ${base.type} hook ${base.hook} priority ${base.priority}; policy ${base.policy};`];
}

export function ruleText({ matches, counter, statement, comment }: NftRule): string {
  const parts = matches.map(matchText);
  if (counter) parts.push('counter');
  parts.push(statementText(statement));
  if (comment !== null) parts.push(`comment ${nftQuote(comment)}`);
  return parts.join(' ');
}

const ALL_BITS = 0xffff_ffff;

function matchText(match: Match): string {
  switch (match.match) {
    case 'ctEstablished':
      return 'ct state established,related';
    case 'ctUntracked':
      return 'ct state untracked';
    case 'ctNew':
      return 'ct state new';
    case 'ctDirection':
      return `ct direction ${match.direction}`;
    case 'ctNoSnat':
      return 'ct status ! snat';
    case 'mark':
      return markMatchText(match);
    case 'ctLabel':
      return `ct label ${match.negated ? '! ' : ''}${match.bits.join(',')}`;
    case 'loopback':
      return `${match.field} "lo"`;
    case 'interfaceGroup':
      return `${match.field} ${match.negated ? '!= ' : ''}${anonymous(match.groups.map(String))}`;
    case 'ctDnat':
      return 'ct status dnat';
    case 'ctConfirmed':
      return 'ct status confirmed';
    case 'dnsAnswer':
      return 'udp sport 53 ct state established ct direction reply';
    case 'limit':
      return `limit rate ${match.perSecond}/second burst ${match.burst} packets`;
    case 'nfproto':
      return `meta nfproto ipv${match.family}`;
    case 'l4proto':
      return `meta l4proto ${anonymous(match.protocols.map(String))}`;
    case 'address':
      return `${addressField(match)} ${'set' in match.in ? `@${identifier(match.in.set)}` : formatCidr(match.in.cidr)}`;
    case 'port':
      return `${match.isProtocolKnown ? 'th' : match.protocol} ${match.field} ${anonymous(match.ranges.map(rangeText))}`;
    case 'originalPort':
      return `meta l4proto ${match.protocol} ct original proto-dst ${anonymous(match.ranges.map(rangeText))}`;
    case 'serviceTuple':
      return `${match.family === 4 ? 'ip' : 'ip6'} daddr . meta l4proto . th dport @${identifier(match.set)}`;
    case 'notIn':
      return `${match.family === 4 ? 'ip' : 'ip6'} ${match.field} != ${anonymous(match.cidrs.map(formatCidr))}`;
    case 'notInSet':
      return `${match.family === 4 ? 'ip' : 'ip6'} ${match.field} != @${identifier(match.set)}`;
    case 'pastDeadline':
      return `${match.family === 4 ? 'ip saddr & 0.0.0.0' : 'ip6 saddr & ::'} != @${identifier(match.set)}`;
    case 'noRouteBack':
      return 'fib saddr . iif oif missing';
    case 'fromSocket':
      return `meta skuid != ${NO_USER}`;
    case 'tcpSyn':
      return 'tcp flags syn';
    case 'tcpNotFirst':
      return 'tcp flags & (fin | syn | rst | ack) != syn';
    case 'local':
      return `fib ${match.field} type local`;
    case 'vrf':
      return 'meta iifkind "vrf"';
    case 'toVrf':
      return `meta oifkind "vrf" oifname ${nftQuote(match.device)}`;
    case 'toMany':
      return 'meta pkttype != host';
    case 'notEther':
      return 'meta iiftype != ether';
    case 'etherHeader':
      return '@ll,96,16 != 0';
    case 'portTuple':
      return `meta l4proto . ${match.withSourcePort ? 'th sport . ' : ''}th dport ${set(match.tuples.map((tuple) => tupleText(tuple, match.withSourcePort)))}`;
    case 'icmp':
      return icmpText(match);
    case 'igmp':
      return `igmp type ${anonymous(match.types.map(String))}`;
  }
}

/** (uid_t) -1, which no user has: the rule ends where there is no socket, so it is any user. */
export const NO_USER = 0xffff_ffff;

function addressField({ family, field }: MatchOf<'address'>): string {
  const ip = family === 4 ? 'ip' : 'ip6';
  return field === 'originalDaddr' ? `ct original ${ip} daddr` : `${ip} ${field}`;
}

function markMatchText({ of, mask, value, negated }: MatchOf<'mark'>): string {
  const isMasked = mask !== ALL_BITS;
  const operator = negated ? '!= ' : isMasked ? '== ' : '';
  return `${of} mark ${isMasked ? `& ${markText(mask)} ` : ''}${operator}${markText(value)}`;
}

function icmpText({ protocol, types }: MatchOf<'icmp'>): string {
  if (types.every(({ code }) => code === null)) {
    return `${protocol} type ${anonymous(types.map(({ type }) => String(type)))}`;
  }
  const [only] = types;
  if (only !== undefined && types.length === 1) {
    return `${protocol} type ${only.type} ${protocol} code ${only.code}`;
  }
  const pairs = types.map(({ type, code }) => `${type} . ${code === null ? '0-255' : code}`);
  return `${protocol} type . ${protocol} code ${set(pairs)}`;
}

function tupleText({ protocol, sourcePorts, ports }: PortTuple, withSourcePort: boolean): string {
  return `${protocol} . ${withSourcePort ? `${rangeText(sourcePorts)} . ` : ''}${rangeText(ports)}`;
}

function rangeText([first, last]: PortRange): string {
  return first === last ? `${first}` : `${first}-${last}`;
}

/** A single value is written as it is, several as an anonymous set. */
function anonymous(values: readonly string[]): string {
  return values.length === 1 ? (values[0] ?? '') : set(values);
}

function set(values: readonly string[]): string {
  return `{ ${values.join(', ')} }`;
}

function statementText(statement: Statement): string {
  switch (statement.kind) {
    case 'accept':
    case 'drop':
    case 'return':
      return statement.kind;
    case 'log':
      return `log prefix ${nftQuote(statement.prefix)} group ${statement.group} snaplen ${statement.copyRange} queue-threshold ${statement.queueThreshold}`;
    case 'masquerade':
      return statement.random ? 'masquerade fully-random' : 'masquerade';
    case 'snat':
      return snatText(statement);
    case 'notrack':
      return 'notrack';
    case 'setMark':
      return setMarkText(statement);
    case 'setLabel':
      return `ct label set ${statement.bits.join(' | ')}`;
    case 'maxSegment':
      return `tcp option maxseg size set ${statement.size}`;
    case 'reject':
      return statement.with === 'tcp reset' ? 'reject with tcp reset' : 'reject with icmpx admin-prohibited';
    case 'jump':
    case 'goto':
      return chainVerdict(statement);
    case 'portMap':
      return `${portKey(statement)} vmap @${identifier(statement.map)}`;
    case 'addressMap':
      return `${statement.family === 4 ? 'ip' : 'ip6'} ${statement.field} vmap @${identifier(statement.map)}`;
    case 'markMap':
      return `${statement.of} mark ${statement.mask === ALL_BITS ? '' : `& ${markText(statement.mask)} `}vmap @${identifier(statement.map)}`;
    case 'addressMacMap':
      return `${statement.family === 4 ? 'ip' : 'ip6'} saddr . ether saddr vmap @${identifier(statement.map)}`;
    case 'addressInnerMacMap':
      return `${statement.family === 4 ? 'ip' : 'ip6'} saddr . ${INNER_MAC} vmap @${identifier(statement.map)}`;
    case 'hashMap':
      return hashMapText(statement);
  }
}

function snatText({ family, to }: Extract<Statement, { kind: 'snat' }>): string {
  const ip = family === 4 ? 'ip' : 'ip6';
  return `snat ${ip} to ${to === 'saddr' ? `${ip} saddr` : formatAddress({ family, value: to })}`;
}

/** nft prints the bits that are set in the mask too. */
function setMarkText({ to, from, mask, value }: Extract<Statement, { kind: 'setMark' }>): string {
  if (mask === 0) return `${to} mark set ${markText(value)}`;
  const shown = (mask | value) >>> 0;
  const kept = shown === ALL_BITS ? '' : ` & ${markText(shown)}`;
  return `${to} mark set ${from} mark${kept}${value === 0 ? '' : ` | ${markText(value)}`}`;
}

function hashMapText({ family, fields, verdicts }: Extract<Statement, { kind: 'hashMap' }>): string {
  const key = fields.map((field) => `${family === 4 ? 'ip' : 'ip6'} ${field}`).join(' . ');
  const elements = verdicts.map((verdict, i) => `${i} : ${chainVerdict(verdict)}`);
  return `jhash ${key} mod ${verdicts.length} seed 0x0 vmap ${set(elements)}`;
}

function portKey({ protocol, field, original }: Extract<Statement, { original: boolean }>): string {
  return original ? `meta l4proto ${protocol} ct original proto-dst` : `th ${field}`;
}

function chainVerdict({ kind, chain }: ChainVerdict): string {
  return `${kind} ${identifier(chain)}`;
}

/** Throws an Error for a name that nft would not read as an identifier. */
export function identifier(name: string): string {
  if (!isIdentifier(name)) throw new Error(`${JSON.stringify(name)} is not a valid nft identifier`);
  return name;
}

/**
 * A letter, then letters, digits and `/ _ . -`, at most 255 characters (NFT_NAME_MAXLEN without its
 * NUL): scanner.l of nft.
 */
export function isIdentifier(name: string): boolean {
  return /^[A-Za-z][A-Za-z0-9/_.-]{0,254}$/.test(name);
}

/**
 * Quotes a text. nft's strings have no escapes, so quotes, backslashes and control characters are
 * replaced by `_`.
 */
export function nftQuote(text: string): string {
  return `"${text.replaceAll(/["\\\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '_')}"`;
}

/**
 * Names of chains and sets: `purpose-hash-words`. An nft identifier is a letter, then letters,
 * digits and `/ \ _ . -`, at most 255 characters (NFT_NAME_MAXLEN 256 with its NUL). The hash keeps
 * names distinct whose words were cut. A comment holds at most 128 bytes
 * (NFTNL_UDATA_COMMENT_MAXLEN): a longer one makes nft refuse the whole transaction.
 */
const MAX_NAME = 128;
const MAX_COMMENT = 120;

export function chainName(purpose: string, hash: string, words: string): string {
  return `${purpose}-${hash}-${words.replaceAll(/[^A-Za-z0-9_.-]/g, '_')}`.slice(0, MAX_NAME);
}

export function setName(id: string, family: Family): string {
  return `peers-${id}-v${family}`;
}

export function serviceSetName(id: string, family: Family): string {
  return `services-${id}-v${family}`;
}

/** Cuts the text to the length of a comment, at a character boundary. */
export function comment(words: string): string {
  if (Buffer.byteLength(words) <= MAX_COMMENT) return words;
  const cut = Buffer.from(words)
    .subarray(0, MAX_COMMENT - 3)
    .toString();
  return `${cut.replace(/(?<!\uFFFD)\uFFFD+$/, '')}...`;
}

/** The chain of an index that receives the packets of a protocol, if it has one. */
export function protocolChain(index: string, protocol: L4Protocol): string {
  return `${index}-${protocol}`;
}
