import type { L4Protocol, MarkField, Match, MatchOf, NamedSet, Ruleset } from '../../agent/render/ruleset.ts';
import { type ChainVerdict, eachEntry, type VerdictMap } from '../../agent/render/verdict-map.ts';
import { type Cidr, type Family, lastAddress } from '../../lib/net/address.ts';
import { unpackMachine32 } from '../../lib/net/bytes.ts';
import { unpackAddress } from '../../lib/net/member-set.ts';
import { type Packet, VRF } from './packet.ts';

/**
 * Whether a packet meets one match. Implied conditions are those that nft 1.0.6 puts in front (seen
 * with `nft --debug=netlink`): `ip`, `icmp type` and `igmp type` ask for IPv4, `ip6` and `icmpv6
 * type` for IPv6, `tcp dport` for TCP.
 */
export function matches(match: Match, packet: Packet, ruleset: Ruleset): boolean {
  switch (match.match) {
    case 'ctEstablished':
      return packet.established;
    case 'loopback':
      return interfaceOf(match.field, packet)?.name === 'lo';
    case 'interfaceGroup': {
      const group = interfaceOf(match.field, packet)?.group;
      return group !== undefined && match.groups.includes(group) !== match.negated;
    }
    case 'ctUntracked':
      return packet.isUntracked === true;
    case 'ctNew':
      return packet.isUntracked !== true && !packet.established;
    case 'ctDirection':
      return packet.isUntracked !== true && (packet.ctDirection ?? 'original') === match.direction;
    case 'ctNoSnat': {
      // The kernel sets the flag where NAT changed something: a binding to itself changes nothing.
      const { binding } = packet;
      return packet.isUntracked !== true && (binding == null || binding.from === binding.to);
    }
    case 'mark': {
      const mark = markOf(match.of, packet);
      return mark !== null && ((mark & match.mask) >>> 0 === match.value) !== match.negated;
    }
    case 'ctLabel': {
      const labels = packet.ctLabels ?? [];
      return packet.isUntracked !== true && match.bits.some((bit) => labels.includes(bit)) !== match.negated;
    }
    case 'notInSet':
      return packet.family === match.family && !isInSet(match, packet, ruleset);
    case 'pastDeadline':
      return packet.family === match.family && !hasAddress(ruleset, match.set, match.family, 0n);
    case 'noRouteBack':
      return packet.lacksRouteBack === true;
    case 'fromSocket':
      return packet.hasSocket === true;
    case 'tcpSyn':
      return packet.protocol === 6 && packet.isSyn === true;
    case 'tcpNotFirst':
      return packet.protocol === 6 && packet.isUntracked === true;
    case 'ctDnat':
      return packet.original !== null;
    case 'ctConfirmed':
      // Every packet here is the first of its connection.
      return packet.established;
    case 'dnsAnswer':
      return packet.established && packet.protocol === 17 && packet.srcPort === 53;
    case 'limit':
      // Met by what comes seldom.
      return true;
    case 'originalPort':
      return (
        packet.protocol === protocolNumber(match.protocol) &&
        isInOne(match.ranges, (packet.original ?? packet).dstPort)
      );
    case 'serviceTuple':
      return packet.family === match.family && matchesService(match, packet, ruleset);
    case 'notIn':
      return (
        packet.family === match.family &&
        !match.cidrs.some((cidr) => isWithin(cidr, match.field === 'saddr' ? packet.src : packet.dst))
      );
    case 'local':
      return (match.field === 'saddr' ? packet.isFromOwn : packet.isToOwn) === true;
    case 'vrf':
      return false;
    case 'toVrf':
      return packet.interface.name === VRF && match.device === VRF;
    case 'toMany':
      return packet.isMulticast === true;
    case 'notEther':
      return packet.interface.name === 'lo';
    case 'etherHeader':
      return packet.isOwnCopy !== true && packet.interface.name !== 'lo';
    case 'nfproto':
      return packet.family === match.family;
    case 'l4proto':
      return match.protocols.some((protocol) => protocolNumber(protocol) === packet.protocol);
    case 'address':
      return packet.family === match.family && matchesAddress(match, packet, ruleset);
    case 'port': {
      const port = match.field === 'sport' ? packet.srcPort : packet.dstPort;
      const isOfProtocol = packet.protocol === protocolNumber(match.protocol);
      // The kernel would compare the bytes of the other protocol's header.
      if (match.isProtocolKnown && !isOfProtocol)
        throw new Error(
          `a packet of protocol ${packet.protocol} comes to a rule for ${match.protocol} alone`,
        );
      return isOfProtocol && isInOne(match.ranges, port);
    }
    case 'portTuple':
      return matchesTuple(match, packet);
    case 'icmp': {
      const [family, protocol] = match.protocol === 'icmp' ? [4, 1] : [6, 58];
      return packet.family === family && packet.protocol === protocol && matchesType(match.types, packet);
    }
    case 'igmp':
      return packet.family === 4 && packet.protocol === 2 && match.types.includes(packet.type ?? -1);
    default:
      throw new Error(`unknown match ${JSON.stringify(match satisfies never)}`);
  }
}

function isWithin(cidr: Cidr, address: bigint): boolean {
  return cidr.value <= address && address <= lastAddress(cidr);
}

const PROTOCOL_NUMBERS: Readonly<Record<Exclude<L4Protocol, number>, number>> = {
  icmp: 1,
  igmp: 2,
  tcp: 6,
  udp: 17,
  icmpv6: 58,
  sctp: 132,
};

export function protocolNumber(protocol: L4Protocol): number {
  if (typeof protocol === 'number') return protocol;
  const number = PROTOCOL_NUMBERS[protocol];
  if (number === undefined) throw new Error(`unknown protocol ${protocol}`);
  return number;
}

/** The mark; null where the rule ends because the packet has no connection. */
export function markOf(of: MarkField, { mark, ctMark, isUntracked }: Packet): number | null {
  if (of === 'meta') return mark ?? 0;
  return isUntracked === true ? null : (ctMark ?? 0);
}

/** Undefined: at this hook there is none, so the rule ends. */
function interfaceOf(
  field: 'iif' | 'iifgroup' | 'oif' | 'oifgroup',
  { direction, interface: own, output }: Packet,
): Packet['interface'] | undefined {
  if (field.startsWith('iif')) return direction === 'ingress' ? own : undefined;
  return direction === 'egress' ? own : output;
}

function matchesAddress(
  match: MatchOf<'address'>,
  { src, dst, original }: Packet,
  ruleset: Ruleset,
): boolean {
  const value = { saddr: src, daddr: dst, originalDaddr: original?.dst ?? dst }[match.field];
  if ('cidr' in match.in) {
    if (match.in.cidr.family !== match.family) throw new Error('an address of the other family');
    return match.in.cidr.value <= value && value <= lastAddress(match.in.cidr);
  }
  return hasAddress(ruleset, match.in.set, match.family, value);
}

function isInSet(
  { set, family, field }: MatchOf<'notInSet'>,
  { src, dst }: Packet,
  ruleset: Ruleset,
): boolean {
  return hasAddress(ruleset, set, family, field === 'saddr' ? src : dst);
}

function hasAddress({ sets }: Ruleset, name: string, family: Family, value: bigint): boolean {
  const set = sets.get(name);
  if (set === undefined) throw new Error(`no set ${name}`);
  if (set.family !== family) throw new Error(`set ${set.name} is of the other family`);
  return setHas(set, value);
}

function matchesService(
  { set: name, family }: MatchOf<'serviceTuple'>,
  { dst, protocol, dstPort }: Packet,
  ruleset: Ruleset,
): boolean {
  const set = ruleset.sets.get(name);
  if (set === undefined) throw new Error(`no set ${name}`);
  if (set.family !== family || set.key !== 'service') throw new Error(`set ${name} has other keys`);
  // type ipv4_addr . inet_proto . inet_service: fields are padded to 4 bytes.
  const address = dst.toString(16).padStart(family === 4 ? 8 : 32, '0');
  const byte = (value: number) => value.toString(16).padStart(2, '0');
  const key = `${address}${byte(protocol)}000000${(dstPort ?? 0).toString(16).padStart(4, '0')}0000`;
  const hex = Buffer.from(set.members.singles).toString('hex');
  const keys: string[] = [...(hex.match(new RegExp(`.{${key.length}}`, 'g')) ?? [])];
  return dstPort !== undefined && keys.includes(key);
}

/** Plain search, on purpose another than hasMember's. */
function setHas({ name, family, key, interval, members }: NamedSet, value: bigint): boolean {
  const { singles, prefixes } = members;
  if (key !== 'address') throw new Error(`set ${name} has other keys`);
  if (!interval && prefixes.length > 0) throw new Error(`set ${name} is no interval set and has prefixes`);
  for (let at = 0; at < singles.length; at += family === 4 ? 4 : 16) {
    if (unpackAddress(family, singles, at).value === value) return true;
  }
  return prefixes.some((prefix) => prefix.value <= value && value <= lastAddress(prefix));
}

type Range = readonly [first: number, last: number];

function isIn([first, last]: Range, port: number | undefined): boolean {
  return port !== undefined && first <= port && port <= last;
}

/** Overlapping elements: the kernel refuses the set. */
function isInOne(ranges: readonly Range[], port: number | undefined): boolean {
  const found = ranges.filter((range) => isIn(range, port));
  if (found.length > 1) throw new Error(`overlapping ranges ${JSON.stringify(found)}`);
  return found.length > 0;
}

function matchesTuple(
  { tuples, withSourcePort }: MatchOf<'portTuple'>,
  { protocol, srcPort, dstPort }: Packet,
): boolean {
  const found = tuples.filter(
    (tuple) =>
      protocolNumber(tuple.protocol) === protocol &&
      (!withSourcePort || isIn(tuple.sourcePorts, srcPort)) &&
      isIn(tuple.ports, dstPort),
  );
  if (found.length > 1) throw new Error(`overlapping tuples ${JSON.stringify(found)}`);
  return found.length > 0;
}

function matchesType(types: MatchOf<'icmp'>['types'], packet: Packet): boolean {
  const found = types.filter(
    ({ type, code }) => type === packet.type && (code === null || code === packet.code),
  );
  if (found.length > 1) throw new Error(`overlapping ICMP types ${JSON.stringify(found)}`);
  return found.length > 0;
}

/**
 * One element of a verdict map, decoded: a port, a mark or the value of an address, the first and
 * the last of a range; of an address with a MAC the bytes as they stand.
 */
interface Element {
  readonly first: bigint;
  readonly last: bigint;
  readonly verdict: ChainVerdict;
}

/** The elements of a map, in its order, whatever they are. */
export function elementsOf(map: VerdictMap): Element[] {
  const elements: Element[] = [];
  eachEntry(map, (first, last, verdict) => {
    const value = map.key === 'mark' ? (key: Uint8Array) => BigInt(unpackMachine32(key)) : toValue;
    elements.push({ first: value(first), last: value(last), verdict });
  });
  return elements;
}

/** A key in network byte order. */
function toValue(packed: Uint8Array): bigint {
  return BigInt(`0x${Buffer.from(packed).toString('hex')}`);
}

/** Looks one key up; null where the map doesn't have it. */
export type LookUp = (key: bigint) => ChainVerdict | null;

/**
 * What the kernel does with a map. Throws on elements that overlap: the kernel refuses them
 * (-EEXIST), or, where both are in one transaction, finds either.
 */
export function lookUpIn(map: VerdictMap): LookUp {
  const sorted = elementsOf(map).sort((a, b) => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0));
  for (const [i, { first, last }] of sorted.entries()) {
    const before = sorted[i - 1];
    if (last < first) throw new Error(`${map.name}: ${first}-${last} is no range`);
    if (before !== undefined && before.last >= first)
      throw new Error(`${map.name}: overlapping keys ${first}`);
  }
  if (!map.interval) {
    const verdicts = new Map(sorted.map(({ first, verdict }) => [first, verdict]));
    return (key) => verdicts.get(key) ?? null;
  }
  return (key) => {
    const at = sorted.findLast(({ first }) => first <= key);
    return at !== undefined && key <= at.last ? at.verdict : null;
  };
}

const rotated = (value: number, by: number): number => (value << by) | (value >>> (32 - by));

/**
 * The kernel's jhash (include/linux/jhash.h, Bob Jenkins' lookup3), as a little-endian machine
 * computes it.
 */
function jhash(key: Uint8Array, seed: number): number {
  let a = (0xdeadbeef + key.length + seed) | 0;
  let b = a;
  let c = a;
  const word = (at: number): number =>
    (key[at] ?? 0) | ((key[at + 1] ?? 0) << 8) | ((key[at + 2] ?? 0) << 16) | ((key[at + 3] ?? 0) << 24);
  let at = 0;
  for (; key.length - at > 12; at += 12) {
    a = (a + word(at)) | 0;
    b = (b + word(at + 4)) | 0;
    c = (c + word(at + 8)) | 0;
    a = ((a - c) ^ rotated(c, 4)) | 0;
    c = (c + b) | 0;
    b = ((b - a) ^ rotated(a, 6)) | 0;
    a = (a + c) | 0;
    c = ((c - b) ^ rotated(b, 8)) | 0;
    b = (b + a) | 0;
    a = ((a - c) ^ rotated(c, 16)) | 0;
    c = (c + b) | 0;
    b = ((b - a) ^ rotated(a, 19)) | 0;
    a = (a + c) | 0;
    c = ((c - b) ^ rotated(b, 4)) | 0;
    b = (b + a) | 0;
  }
  if (key.length === at) return c >>> 0;
  a = (a + word(at)) | 0;
  b = (b + word(at + 4)) | 0;
  c = (c + word(at + 8)) | 0;
  c = ((c ^ b) - rotated(b, 14)) | 0;
  a = ((a ^ c) - rotated(c, 11)) | 0;
  b = ((b ^ a) - rotated(a, 25)) | 0;
  c = ((c ^ b) - rotated(b, 16)) | 0;
  a = ((a ^ c) - rotated(c, 4)) | 0;
  b = ((b ^ a) - rotated(a, 14)) | 0;
  c = ((c ^ b) - rotated(b, 24)) | 0;
  return c >>> 0;
}

/** `jhash KEY mod N`: nft scales the hash, it does not divide (reciprocal_scale()). */
export function bucketOf(key: Uint8Array, modulus: number, seed: number): number {
  return Number((BigInt(jhash(key, seed)) * BigInt(modulus)) >> 32n);
}
