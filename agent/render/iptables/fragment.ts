import type { PortRange } from '../../../apis/compiled.ts';
import { AUTHENTICATION_HEADER, SKIPPED_HEADERS } from '../../../apis/ip-protocols.ts';
import { BITS, type Cidr, type Family, formatAddress } from '../../../lib/net/address.ts';
import { ALL_PORTS, portCount } from '../../../lib/net/interval.ts';
import type { L4Protocol, Match, MatchOf, PortProtocol, PortTuple } from '../ruleset.ts';

/**
 * One match in iptables: options of the rule itself, and a match extension with its own options.
 */
export interface Fragment {
  readonly source?: Cidr;
  readonly destination?: Cidr;
  /** Any source, or destination, outside this prefix. */
  readonly notSource?: Cidr;
  readonly notDestination?: Cidr;
  readonly in?: string;
  readonly out?: string;
  readonly protocol?: L4Protocol;
  /** One range each, for the match that is named for the protocol. */
  readonly sport?: PortRange;
  readonly dport?: PortRange;
  /** No packet that asks for a TCP connection, for the same match. */
  readonly isNotFirst?: true;
  /** `-m NAME OPTIONS`, once or several times. */
  readonly extension?: string;
}

/** Names in ipset by the names in the Ruleset. */
export type SetNames = ReadonlyMap<string, string>;

/**
 * A match as alternatives, each of which needs a rule of its own; empty if packets of the family
 * never match. No packet matches two of them, except for interface groups that differ only in the
 * highest bit (see groupText).
 */
export function fragments(match: Match, family: Family, setNames: SetNames): readonly Fragment[] {
  switch (match.match) {
    case 'ctEstablished':
      return [{ extension: '-m conntrack --ctstate RELATED,ESTABLISHED' }];
    case 'loopback':
      return [match.field === 'iif' ? { in: 'lo' } : { out: 'lo' }];
    case 'interfaceGroup':
      return groups(match);
    case 'ctDnat':
      return [{ extension: '-m conntrack --ctstate DNAT' }];
    case 'ctConfirmed':
      return [{ extension: '-m conntrack --ctstatus CONFIRMED' }];
    case 'ctUntracked':
      return [{ extension: '-m conntrack --ctstate UNTRACKED' }];
    case 'tcpNotFirst':
      return [{ protocol: 'tcp', isNotFirst: true }];
    case 'dnsAnswer':
      return [
        { protocol: 'udp', sport: [53, 53], extension: '-m conntrack --ctstate ESTABLISHED --ctdir REPLY' },
      ];
    case 'limit':
      return [{ extension: limit(match) }];
    case 'nfproto':
      return match.family === family ? [{}] : [];
    case 'l4proto':
      return match.protocols.flatMap((protocol) => ofProtocol(protocol, family));
    case 'address':
      return match.family === family ? addresses(match, setNames) : [];
    case 'port':
      return ports(match.protocol, match.field, match.ranges);
    case 'originalPort':
      return originalPorts(match);
    case 'serviceTuple':
      if (match.family !== family) return [];
      return [{ extension: `-m set --match-set ${setName(match.set, setNames)} dst,dst` }];
    case 'notIn':
      return notIn(match, family);
    case 'pastDeadline':
      // The set has all addresses, or none.
      if (match.family !== family) return [];
      return [{ extension: `-m set ! --match-set ${setName(match.set, setNames)} src` }];
    case 'local':
      return [{ extension: `-m addrtype --${match.field === 'saddr' ? 'src' : 'dst'}-type LOCAL` }];
    case 'ctNew':
    case 'ctDirection':
    case 'ctNoSnat':
    case 'mark':
    case 'ctLabel':
    case 'notInSet':
    case 'noRouteBack':
    case 'fromSocket':
    case 'tcpSyn':
      throw new Error(`iptables: the match ${match.match} is for egress gateways, which need nftables`);
    case 'vrf':
      // addrtype doesn't look at the addresses of a VRF, so no rule has to leave it out.
      return [];
    case 'toVrf':
      // iptables does not know kinds of interfaces.
      return [{ out: match.device }];
    case 'toMany':
      return [{ extension: '-m pkttype ! --pkt-type unicast' }];
    case 'notEther':
      // iptables has no such match. Interfaces without Ethernet headers call what they receive
      // `unicast`, but for a tunnel of GRE to a multicast group.
      return [];
    case 'etherHeader':
      // Only a packet with an Ethernet header has a source, or another one.
      return ['', '! '].map((not) => ({ extension: `-m mac ${not}--mac-source ${NO_MAC}` }));
    case 'portTuple':
      return portTuples(match.tuples);
    case 'icmp':
      return icmp(match, family);
    case 'igmp':
      return igmp(match, family);
  }
}

function ofProtocol(protocol: L4Protocol, family: Family): Fragment[] {
  if (family === 6) {
    // ip6tables-legacy knows no packet by these: it skips AH too, for which it has a match.
    if (SKIPPED_HEADERS.some((one) => one === protocol)) return [];
    if (protocol === AUTHENTICATION_HEADER) return [{ extension: '-m ah' }];
  }
  // To iptables protocol 0 is every protocol.
  return protocol === 0 ? [{ extension: u32(IPV4_PROTOCOL, [0]) }] : [{ protocol }];
}

const NO_MAC = '00:00:00:00:00:00';
/** A link group has 32 bits. */
const LOW_BITS = 0x7fff_ffff;
const HIGHEST_BIT = 0x8000_0000;

function groups({ field, groups, negated }: MatchOf<'interfaceGroup'>): Fragment[] {
  const texts = groups.map((group) => groupText(field, group, negated));
  return negated ? [{ extension: texts.join(' ') }] : texts.map((extension) => ({ extension }));
}

/**
 * Uses a mask, because iptables-save prints a group without one by its name in /etc/iproute2/group.
 * The mask must leave out a bit. So a group below 2^31 also matches the group with the same lower
 * bits and the highest bit set, and a negated group matches by its lower bits only.
 */
function groupText(field: 'iifgroup' | 'oifgroup', group: number, negated: boolean): string {
  const option = `-m devgroup ${negated ? '! ' : ''}${field === 'iifgroup' ? '--src-group' : '--dst-group'}`;
  const low = `${option} ${hex(group % HIGHEST_BIT)}/${hex(LOW_BITS)}`;
  if (group < HIGHEST_BIT || negated) return low;
  return `${low} ${option} ${hex(HIGHEST_BIT)}/${hex(HIGHEST_BIT)}`;
}

/** Ticks of xt_limit in a second (XT_LIMIT_SCALE), which is also its largest burst. */
const LIMIT_SCALE = 10_000;
/** iptables-save doesn't print this burst, the default. */
const DEFAULT_BURST = 5;

/**
 * iptables stores the time between packets as a whole number of ticks, and prints the corresponding
 * rate.
 */
function limit({ perSecond, burst }: MatchOf<'limit'>): string {
  const ticks = Math.max(1, Math.floor(LIMIT_SCALE / perSecond));
  const rate = Math.floor(LIMIT_SCALE / ticks);
  const atOnce = burst === DEFAULT_BURST ? '' : ` --limit-burst ${Math.min(burst, LIMIT_SCALE)}`;
  return `-m limit --limit ${rate}/sec${atOnce}`;
}

function addresses({ field, in: where }: MatchOf<'address'>, setNames: SetNames): Fragment[] {
  // ipset looks only at packets, so it doesn't know the destination before NAT.
  if (field === 'originalDaddr') {
    return 'set' in where ? [] : [{ extension: `-m conntrack --ctorigdst ${originalText(where.cidr)}` }];
  }
  if ('set' in where) {
    const direction = field === 'saddr' ? 'src' : 'dst';
    return [{ extension: `-m set --match-set ${setName(where.set, setNames)} ${direction}` }];
  }
  return [field === 'saddr' ? { source: where.cidr } : { destination: where.cidr }];
}

/** Here iptables-save leaves out the length of a single address. */
function originalText(cidr: Cidr): string {
  return cidr.length === BITS[cidr.family] ? addressText(cidr) : cidrText(cidr);
}

function setName(name: string, names: SetNames): string {
  const found = names.get(name);
  if (found === undefined) throw new Error(`the ruleset does not contain its set ${name}`);
  return found;
}

/** In the C library's format, always with the length. */
export function cidrText(cidr: Cidr): string {
  return `${addressText(cidr)}/${cidr.length}`;
}

/**
 * inet_ntop(3) writes the last 32 bits of an IPv6 address as an IPv4 address if it is mapped or
 * compatible (the first 96 bits are 0, except `::` and `::1`).
 */
function addressText({ family, value }: Pick<Cidr, 'family' | 'value'>): string {
  const high = value >> 32n;
  const low = { family: 4, value: value & 0xffff_ffffn } as const;
  if (family === 6 && high === 0xffffn) return `::ffff:${formatAddress(low)}`;
  if (family === 6 && high === 0n && low.value > 0xffffn) return `::${formatAddress(low)}`;
  return formatAddress({ family, value });
}

/** The most ports of xt_multiport; a range takes two (XT_MULTI_PORTS). */
const PORT_SLOTS = 15;

function ports(protocol: PortProtocol, field: 'sport' | 'dport', ranges: readonly PortRange[]): Fragment[] {
  const [only, ...others] = ranges;
  if (only === undefined || portCount(ranges) === portCount([ALL_PORTS])) return [{ protocol }];
  if (others.length === 0) return [{ protocol, [field]: only }];
  return portLists(ranges).map((list) => ({
    protocol,
    extension: `-m multiport --${field}s ${list.map(portRangeText).join(',')}`,
  }));
}

function portLists(ranges: readonly PortRange[]): PortRange[][] {
  const lists: PortRange[][] = [];
  let free = 0;
  for (const range of ranges) {
    const slots = range[0] === range[1] ? 1 : 2;
    if (slots > free) {
      lists.push([]);
      free = PORT_SLOTS;
    }
    lists.at(-1)?.push(range);
    free -= slots;
  }
  return lists;
}

export function portRangeText([first, last]: PortRange): string {
  return first === last ? `${first}` : `${first}:${last}`;
}

function originalPorts({ protocol, ranges }: MatchOf<'originalPort'>): Fragment[] {
  return ranges.map((range) => ({
    protocol,
    extension: `-m conntrack --ctorigdstport ${portRangeText(range)}`,
  }));
}

/** One rule for each protocol and range of source ports, or more if multiport needs them. */
function portTuples(tuples: readonly PortTuple[]): Fragment[] {
  const same = Map.groupBy(
    tuples,
    ({ protocol, sourcePorts }) => `${protocol} ${portRangeText(sourcePorts)}`,
  );
  return [...same.values()].flatMap((group) => {
    const [first] = group;
    if (first === undefined) return [];
    const { protocol, sourcePorts } = first;
    const from: Fragment = portCount([sourcePorts]) === portCount([ALL_PORTS]) ? {} : { sport: sourcePorts };
    const to = ports(
      protocol,
      'dport',
      group.map((tuple) => tuple.ports),
    );
    return to.map((fragment) => ({ ...fragment, ...from }));
  });
}

/** `! -s` and `! -d` take one prefix; for more, rules return one by one (masquerade.ts). */
function notIn({ family: own, field, cidrs }: MatchOf<'notIn'>, family: Family): Fragment[] {
  if (own !== family) return [];
  const [only, ...others] = cidrs;
  if (only === undefined) return [{}];
  if (others.length > 0) throw new Error('a rule of iptables can be outside of one prefix only');
  return [field === 'saddr' ? { notSource: only } : { notDestination: only }];
}

/**
 * The u32 expression for the start of the ICMP or IGMP header: 4 bits of the first byte are the
 * length of the IPv4 header, in 32-bit words.
 */
const IPV4_PROTOCOL = '0x6&0xff';
const IPV4_PAYLOAD = '0x0>>0x16&0x3c@';
const FIRST_BYTE = `${IPV4_PAYLOAD}0x0>>0x18`;
const FIRST_TWO_BYTES = `${IPV4_PAYLOAD}0x0>>0x10`;
/** The most values of one comparison (XT_U32_MAXSIZE in linux/netfilter/xt_u32.h, minus 1). */
const U32_VALUES = 10;

function icmp({ protocol, types }: MatchOf<'icmp'>, family: Family): Fragment[] {
  if (family !== (protocol === 'icmp' ? 4 : 6)) return [];
  const name = protocol === 'icmp' ? 'icmp --icmp-type' : 'icmp6 --icmpv6-type';
  return types.map(({ type, code }) => {
    // The kernel's icmp match takes type 255 for every type (icmp_type_code_match in xt_tcpudp.c);
    // its icmp6 match has no such type.
    if (protocol === 'icmp' && type === 255) {
      const extension = code === null ? u32(FIRST_BYTE, [type]) : u32(FIRST_TWO_BYTES, [type * 256 + code]);
      return { protocol, extension };
    }
    return { protocol, extension: `-m ${name} ${type}${code === null ? '' : `/${code}`}` };
  });
}

/** iptables has no match for IGMP. */
function igmp({ types }: MatchOf<'igmp'>, family: Family): Fragment[] {
  if (family !== 4) return [];
  const found: Fragment[] = [];
  for (let i = 0; i < types.length; i += U32_VALUES) {
    found.push({ protocol: 'igmp', extension: u32(FIRST_BYTE, types.slice(i, i + U32_VALUES)) });
  }
  return found;
}

function u32(place: string, values: readonly number[]): string {
  return `-m u32 --u32 "${place}=${values.map(hex).join(',')}"`;
}

export function hex(number: number): string {
  return `0x${number.toString(16)}`;
}
