import type { PortRange, RuleSource } from '../../apis/compiled.ts';
import type { Cidr, Family } from '../../lib/net/address.ts';
import type { FamilyMembers } from '../../lib/net/member-set.ts';
import type { ChainVerdict, VerdictMap } from './verdict-map.ts';

/**
 * The value of stage 5: the table `inet nodewall` as objects, in nft's terms. nft-text.ts prints
 * it, apply diffs it, the tracer walks it.
 */
export interface Ruleset {
  /** By name, in the order in which they are printed: base chains, index chains, rule chains. */
  readonly chains: ReadonlyMap<string, Chain>;
  readonly sets: ReadonlyMap<string, NamedSet>;
  readonly maps: ReadonlyMap<string, VerdictMap>;
}

export interface Chain {
  readonly name: string;
  readonly base: BaseChain | null;
  /**
   * A fixed chain is named for its content and never changed in place: a changed rule gets another
   * chain. It may have anonymous interval sets, which must exist one transaction before they are
   * used (see agent/apply/plan/transaction.ts). The rules of other chains are replaced in place. A
   * packet traverses the rules of one generation, but looks up sets and maps as they are at that
   * moment.
   */
  readonly fixed: boolean;
  readonly rules: readonly NftRule[];
  /** The policy rule that this chain implements; null for base and index chains. */
  readonly source: RuleSource | null;
  /**
   * Id of the policy rule that the counters of this chain belong to (CompiledRule.id). With a
   * `source`, they count packets that matched the rule. Without, this is the rule's record chain,
   * and they count the packets that its records account for. Spoofed packets are counted likewise,
   * for no policy rule (anti-spoofing.ts).
   */
  readonly ruleId: string | null;
}

/** Whether the chain writes records, and its counters are those of the recorded packets. */
export function isRecordChain({ ruleId, source, rules }: Chain): boolean {
  return ruleId !== null && source === null && rules.some(({ statement }) => statement.kind === 'log');
}

export interface BaseChain {
  readonly type: 'filter' | 'nat';
  readonly hook: 'prerouting' | 'input' | 'forward' | 'output' | 'postrouting';
  readonly policy: 'accept';
  /** Absolute, see nft(8); smaller runs earlier. */
  readonly priority: number;
}

export interface NftRule {
  readonly matches: readonly Match[];
  readonly counter: boolean;
  readonly statement: Statement;
  readonly comment: string | null;
}

/**
 * Keywords of nft's own grammar: `ipv6-icmp` would be looked up in /etc/protocols, which a small
 * system lacks. For the same reason all others are numbers.
 */
export type L4Protocol = 'tcp' | 'udp' | 'sctp' | 'icmp' | 'icmpv6' | 'igmp' | number;
export type PortProtocol = 'tcp' | 'udp' | 'sctp';

/**
 * originalDaddr: the destination that the client used, before any NAT (ct original daddr); iptables
 * can't look it up in a set.
 */
export type AddressField = 'saddr' | 'daddr' | 'originalDaddr';

export type Match =
  /** ct state established,related */
  | { readonly match: 'ctEstablished' }
  /** ct state untracked: another table has left the packet out of connection tracking. */
  | { readonly match: 'ctUntracked' }
  /** ct state new */
  | { readonly match: 'ctNew' }
  /** ct direction original (or reply) */
  | { readonly match: 'ctDirection'; readonly direction: 'original' | 'reply' }
  /** ct status ! snat: source NAT has not changed the source of the connection. */
  | { readonly match: 'ctNoSnat' }
  /** meta mark & MASK == VALUE (ct mark, !=): the mark of the packet or of its connection. */
  | {
      readonly match: 'mark';
      readonly of: MarkField;
      readonly mask: number;
      readonly value: number;
      readonly negated: boolean;
    }
  /** ct label 5,7 (ct label ! 5,7): the connection has one of these labels, or none of them. */
  | { readonly match: 'ctLabel'; readonly bits: readonly number[]; readonly negated: boolean }
  /** iif "lo" or oif "lo" */
  | { readonly match: 'loopback'; readonly field: 'iif' | 'oif' }
  /** The interface's group is one of these, or none of these if negated. */
  | {
      readonly match: 'interfaceGroup';
      readonly field: 'iifgroup' | 'oifgroup';
      readonly groups: readonly number[];
      readonly negated: boolean;
    }
  /** ct status dnat: destination NAT has changed the destination of the connection. */
  | { readonly match: 'ctDnat' }
  /** ct status confirmed: not the first packet of its connection. */
  | { readonly match: 'ctConfirmed' }
  /**
   * An answer to a DNS question of this node: UDP from port 53, in a connection that the node
   * opened.
   */
  | { readonly match: 'dnsAnswer' }
  /**
   * At most `perSecond` packets a second after a burst of `burst` packets; packets above that don't
   * match.
   */
  | { readonly match: 'limit'; readonly perSecond: number; readonly burst: number }
  | { readonly match: 'nfproto'; readonly family: Family }
  | { readonly match: 'l4proto'; readonly protocols: readonly L4Protocol[] }
  | {
      readonly match: 'address';
      readonly family: Family;
      readonly field: AddressField;
      readonly in: { readonly set: string } | { readonly cidr: Cidr };
    }
  | {
      readonly match: 'port';
      readonly protocol: PortProtocol;
      readonly field: 'sport' | 'dport';
      /** Sorted, disjoint. */
      readonly ranges: readonly PortRange[];
      /** th dport: no packet of another protocol comes here, so it need not be compared. */
      readonly isProtocolKnown?: true;
    }
  /**
   * The destination port that the client used, before any NAT (ct original proto-dst). Ranges are
   * sorted and disjoint.
   */
  | { readonly match: 'originalPort'; readonly protocol: PortProtocol; readonly ranges: readonly PortRange[] }
  /** Destination address, protocol and destination port are in a set of services. */
  | { readonly match: 'serviceTuple'; readonly family: Family; readonly set: string }
  /** The address is outside these prefixes, which are sorted and disjoint. */
  | {
      readonly match: 'notIn';
      readonly family: Family;
      readonly field: 'saddr' | 'daddr';
      readonly cidrs: readonly Cidr[];
    }
  /**
   * ip saddr & 0.0.0.0 != @SET (ip6 saddr & ::): the set has no element, which is the address of
   * all zeros. Packets of the other family don't match.
   */
  | { readonly match: 'pastDeadline'; readonly family: Family; readonly set: string }
  /** ip saddr != @SET: packets of the family whose address is not in the set. */
  | {
      readonly match: 'notInSet';
      readonly family: Family;
      readonly field: 'saddr' | 'daddr';
      readonly set: string;
    }
  /**
   * fib saddr . iif oif missing: no route leads back to the source by the interface that the packet
   * came by.
   */
  | { readonly match: 'noRouteBack' }
  /**
   * meta skuid != 4294967295: a process of this machine sends it by a socket, whoever runs it. What
   * the kernel sends by itself or forwards has no socket, or no user.
   */
  | { readonly match: 'fromSocket' }
  /** tcp flags syn: the first packet of each side of a TCP connection. */
  | { readonly match: 'tcpSyn' }
  /** tcp flags & (fin | syn | rst | ack) != syn: no packet that asks for a TCP connection. */
  | { readonly match: 'tcpNotFirst' }
  /**
   * fib saddr (or daddr) type local: the kernel has this address itself, or it is a loopback
   * address.
   */
  | { readonly match: 'local'; readonly field: 'saddr' | 'daddr' }
  /** meta iifkind "vrf": the packet is in a VRF. */
  | { readonly match: 'vrf' }
  /** meta oifkind "vrf" oifname DEVICE: the packet leaves by this VRF device. */
  | { readonly match: 'toVrf'; readonly device: string }
  /** meta pkttype != host: a multicast or a broadcast. */
  | { readonly match: 'toMany' }
  /** meta iiftype != ether: the packet came in by an interface without Ethernet headers. */
  | { readonly match: 'notEther' }
  /**
   * @ll,96,16 != 0: a packet on an Ethernet interface has a header with a type, so it came in by
   * the wire. The copy that the machine gets of its own multicast has none.
   */
  | { readonly match: 'etherHeader' }
  /** A concatenation of protocol, source port and destination port; the tuples are disjoint. */
  | { readonly match: 'portTuple'; readonly withSourcePort: boolean; readonly tuples: readonly PortTuple[] }
  /** icmp implies IPv4, icmpv6 IPv6. A `code` of null matches every code. */
  | {
      readonly match: 'icmp';
      readonly protocol: 'icmp' | 'icmpv6';
      readonly types: readonly { readonly type: number; readonly code: number | null }[];
    }
  /** Implies IPv4. */
  | { readonly match: 'igmp'; readonly types: readonly number[] };

export type MatchOf<Kind extends Match['match']> = Extract<Match, { match: Kind }>;

/** The mark of the packet (meta) or of its connection (ct): 32 bits. */
export type MarkField = 'meta' | 'ct';

export interface PortTuple {
  readonly protocol: PortProtocol;
  readonly sourcePorts: PortRange;
  readonly ports: PortRange;
}

export type Statement =
  | { readonly kind: 'accept' }
  | { readonly kind: 'drop' }
  | { readonly kind: 'reject'; readonly with: 'tcp reset' | 'icmpx admin-prohibited' }
  | { readonly kind: 'return' }
  | { readonly kind: 'jump' | 'goto'; readonly chain: string }
  /**
   * Sends a copy of the packet to an NFLOG group; evaluation continues with the next rule.
   * `copyRange`: bytes, from the network header.
   */
  | {
      readonly kind: 'log';
      readonly prefix: string;
      readonly group: number;
      readonly copyRange: number;
      readonly queueThreshold: number;
    }
  /**
   * The source becomes an address of the outgoing interface. `random`: with a random port
   * (fully-random); else the port stays where it is free.
   */
  | { readonly kind: 'masquerade'; readonly random: boolean }
  /**
   * snat ip to ADDRESS: the source becomes this address, the port stays where it is free. `saddr`:
   * its own one (snat ip to ip saddr), which later NAT chains then don't change. Packets of the
   * other family don't match.
   */
  | { readonly kind: 'snat'; readonly family: Family; readonly to: bigint | 'saddr' }
  /** The packet gets no conntrack entry; evaluation continues. Only before conntrack (-200). */
  | { readonly kind: 'notrack' }
  /**
   * meta mark set ct mark & MASK | VALUE (ct mark set …): `to` gets the bits of `from` that are in
   * `mask`, with those of `value` set; evaluation continues. `mask` 0: the value alone.
   */
  | {
      readonly kind: 'setMark';
      readonly to: MarkField;
      readonly from: MarkField;
      readonly mask: number;
      readonly value: number;
    }
  /**
   * ct label set 5 | 7: the connection gets these labels, and keeps those that it has; evaluation
   * continues.
   */
  | { readonly kind: 'setLabel'; readonly bits: readonly number[] }
  /**
   * tcp option maxseg size set SIZE, or the one for the route's MTU (rt mtu); it is never raised.
   * Only TCP packets match; evaluation continues.
   */
  | { readonly kind: 'maxSegment'; readonly size: number | 'rt mtu' }
  /**
   * Verdict map by port. The destination port is the one that the client used (`original`) or the
   * packet's. Only for chains that no packet of another protocol reaches.
   */
  | {
      readonly kind: 'portMap';
      readonly protocol: PortProtocol;
      readonly field: 'sport' | 'dport';
      readonly original: boolean;
      readonly map: string;
    }
  /** Verdict map by address; packets of the other family don't match. */
  | {
      readonly kind: 'addressMap';
      readonly family: Family;
      readonly field: 'saddr' | 'daddr';
      readonly map: string;
    }
  /** ct mark & MASK vmap @MAP: verdict map by the masked mark. */
  | { readonly kind: 'markMap'; readonly of: MarkField; readonly mask: number; readonly map: string }
  /**
   * ip saddr . ether saddr vmap @MAP: verdict map by source address and source MAC; packets of the
   * other family, or without an Ethernet header, don't match.
   */
  | { readonly kind: 'addressMacMap'; readonly family: Family; readonly map: string }
  /** The packet is VXLAN, and whole: its source and the source MAC of the frame in it. */
  | { readonly kind: 'addressInnerMacMap'; readonly family: Family; readonly map: string }
  /**
   * jhash ip saddr . ip daddr mod N seed 0x0 vmap { 0 : …, 1 : … }: one of N verdicts, by a hash of
   * these addresses. The map is anonymous: it changes with its rule.
   */
  | {
      readonly kind: 'hashMap';
      readonly family: Family;
      readonly fields: readonly ('saddr' | 'daddr')[];
      readonly verdicts: readonly ChainVerdict[];
    };

/** The named set that a match looks up; null if there is none. */
export function matchedSet(match: Match): string | null {
  switch (match.match) {
    case 'serviceTuple':
    case 'notInSet':
    case 'pastDeadline':
      return match.set;
    case 'address':
      return 'set' in match.in ? match.in.set : null;
    default:
      return null;
  }
}

/** The jump targets of a statement. Those of a named map are in the map. */
export function targets(statement: Statement): readonly string[] {
  switch (statement.kind) {
    case 'jump':
    case 'goto':
      return [statement.chain];
    case 'hashMap':
      return [...new Set(statement.verdicts.map(({ chain }) => chain))];
    case 'accept':
    case 'drop':
    case 'reject':
    case 'return':
    case 'log':
    case 'masquerade':
    case 'snat':
    case 'notrack':
    case 'setMark':
    case 'setLabel':
    case 'maxSegment':
    case 'portMap':
    case 'addressMap':
    case 'markMap':
    case 'addressMacMap':
    case 'addressInnerMacMap':
      return [];
  }
}

/** The statement with its jump targets renamed. */
export function withTargets(statement: Statement, rename: (chain: string) => string): Statement {
  switch (statement.kind) {
    case 'jump':
    case 'goto':
      return { ...statement, chain: rename(statement.chain) };
    case 'hashMap':
      return {
        ...statement,
        verdicts: statement.verdicts.map(({ kind, chain }) => ({ kind, chain: rename(chain) })),
      };
    default:
      return statement;
  }
}

/**
 * One family of an AddressSet or of a ServiceSet: an interval set if it has prefixes, else a hash
 * set.
 */
export interface NamedSet {
  readonly name: string;
  readonly family: Family;
  /**
   * address: `type ipv4_addr` or `ipv6_addr`; service: a concatenation of destination address,
   * protocol and destination port.
   */
  readonly key: SetKey;
  readonly interval: boolean;
  readonly members: SetMembers;
  readonly comment: string | null;
  /**
   * flags timeout: the elements are not the reconciler's but belong to whoever adds them with a
   * timeout (agent/egress/floating/, agent/apply/deadline.ts). `members` is empty, unless `timeout`
   * says with which timeout (milliseconds) these are added when the set is made.
   */
  readonly timed?: true;
  readonly timeout?: number;
}

export type SetKey = 'address' | 'service';

/**
 * `singles` are packed as the kernel takes them, KEY_LENGTH bytes each, sorted, unique. A service
 * is the address, the protocol's number and the port in network byte order, each padded to a
 * multiple of 4 bytes.
 */
export type SetMembers = Pick<FamilyMembers, 'singles' | 'prefixes'>;

export const KEY_LENGTH: Readonly<Record<SetKey, Readonly<Record<Family, number>>>> = {
  address: { 4: 4, 6: 16 },
  service: { 4: 12, 6: 24 },
};

export const TABLE = { family: 'inet', name: 'nodewall' } as const;

/** A rule that neither counts nor has a comment. */
export function plainRule(statement: Statement, ...matches: readonly Match[]): NftRule {
  return { matches, counter: false, statement, comment: null };
}

/** A chain that belongs to no policy rule, changed in place. */
export function plainChain(name: string, rules: readonly NftRule[]): Chain {
  return { name, base: null, fixed: false, rules, source: null, ruleId: null };
}

export function fixedChain(name: string, rules: readonly NftRule[]): Chain {
  return { ...plainChain(name, rules), fixed: true };
}
