import type { PortRange, RuleSource } from '../../apis/compiled.ts';
import type { Cidr, Family } from '../../lib/net/address.ts';
import type { FamilyMembers } from '../../lib/net/member-set.ts';

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
 * system lacks.
 */
export type L4Protocol = 'tcp' | 'udp' | 'sctp' | 'icmp' | 'icmpv6' | 'igmp';
export type PortProtocol = 'tcp' | 'udp' | 'sctp';

/**
 * originalDaddr: the destination that the client used, before any NAT (ct original daddr); iptables
 * can't look it up in a set.
 */
export type AddressField = 'saddr' | 'daddr' | 'originalDaddr';

export type Match =
  /** ct state established,related */
  | { readonly match: 'ctEstablished' }
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
   * fib saddr (or daddr) type local: the kernel has this address itself, or it is a loopback
   * address.
   */
  | { readonly match: 'local'; readonly field: 'saddr' | 'daddr' }
  /** meta iifkind "vrf": the packet is in a VRF. */
  | { readonly match: 'vrf' }
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
  /** The source becomes an address of the outgoing interface, with a random port. */
  | { readonly kind: 'masquerade' }
  /**
   * Verdict map by port. The destination port is the one that the client used (`original`) or the
   * packet's.
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
    };

export interface ChainVerdict {
  readonly kind: 'jump' | 'goto';
  readonly chain: string;
}

/** The jump targets of a statement. Those of a named map are in the map. */
export function targets(statement: Statement): readonly string[] {
  switch (statement.kind) {
    case 'jump':
    case 'goto':
      return [statement.chain];
    case 'accept':
    case 'drop':
    case 'reject':
    case 'return':
    case 'log':
    case 'masquerade':
    case 'portMap':
    case 'addressMap':
      return [];
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

/**
 * A named map from ports or addresses to verdicts. It is filled through netlink before it is used.
 *
 * A fixed map is named for its content, like a fixed chain, and never changed in place. All
 * interval maps are fixed, because lookups would miss for a moment a range that is replaced in
 * place. The elements of other maps change while in use, each from one verdict to the next at once.
 */
export interface VerdictMap {
  readonly name: string;
  /** Null: keys are ports. */
  readonly family: Family | null;
  readonly interval: boolean;
  readonly fixed: boolean;
  /**
   * Packed as the kernel takes them, mapKeyLength bytes each, in network byte order; sorted,
   * unique. For an interval map: pairs of first and last key, sorted and disjoint.
   */
  readonly keys: Uint8Array;
  /** For each key or pair an index into `verdicts`. */
  readonly targets: Uint32Array;
  /** May contain duplicates. */
  readonly verdicts: readonly ChainVerdict[];
}

/** The length of one key in bytes. */
export function mapKeyLength({ family }: Pick<VerdictMap, 'family'>): number {
  return family === null ? 2 : KEY_LENGTH.address[family];
}

/**
 * Calls `entry` for each element, in order, with its key or first key, its last key (the same in a
 * hash map), and its verdict. Throws RangeError if an element has no verdict.
 */
export function eachEntry(
  map: VerdictMap,
  entry: (first: Uint8Array, last: Uint8Array, verdict: ChainVerdict) => void,
): void {
  const width = mapKeyLength(map);
  const step = map.interval ? 2 * width : width;
  for (const [i, target] of map.targets.entries()) {
    const first = map.keys.subarray(i * step, i * step + width);
    const last = map.interval ? map.keys.subarray(i * step + width, (i + 1) * step) : first;
    const verdict = map.verdicts[target];
    if (verdict === undefined) throw new RangeError(`map ${map.name}: no verdict ${target}`);
    entry(first, last, verdict);
  }
}

export const TABLE = { family: 'inet', name: 'nodewall' } as const;
