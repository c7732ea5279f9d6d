import { WIDTH } from '../../lib/net/address.ts';
import { portCount } from '../render/ports.ts';
import {
  type Chain,
  KEY_LENGTH,
  type Match,
  type NamedSet,
  type NftRule,
  type Statement,
} from '../render/ruleset.ts';
import { mapKeyLength, type VerdictMap } from '../render/verdict-map.ts';

/**
 * Estimates of the kernel memory, in bytes, of the table's objects, to compare the cost of an index
 * with that of its rules. For display only; no decision depends on it.
 *
 * Measured on Linux 6.18.44, x86-64, 2 processors (a counter takes a few bytes per processor), as
 * the growth of a memory cgroup's kernel memory (memory.kmem.usage_in_bytes) when nft 1.0.6 loads
 * 2,000 to 10,000 objects of one kind, or 60,000 elements, in a network namespace. The kernel
 * rounds sizes up to powers of two, so the estimate of one object can be off by a third. Whole
 * tables of 1,000 and 10,000 rules of ten kinds (perf/generate/kinds.ts), loaded by nft, were
 * estimated within 8 %.
 */
export const OBJECT_BYTES = {
  /** A chain without rules, with a name of 24 to 40 characters. */
  chain: 270,
  /** Additional for a chain that has rules. */
  rulesOfChain: 65,
  jump: 112,
  /** A rule with a map look-up. */
  lookup: 335,
  /**
   * A rule with counter, comment and verdict, by the number of matches (0, 1, 2 or more); from two
   * matches on it takes the next larger block of memory.
   */
  rule: [270, 430, 1040],
  map: 560,
  set: 560,
  /** Additional for a hash set with a comment: the next larger block of memory. */
  commented: 500,
  /** Element of a hash set or map, without its key, with its share of the hash table. */
  element: 70,
  /** Element of an interval set or map with IPv4 or port keys: its two ends. */
  interval: 150,
  /**
   * Additional for an interval set with at least one element: the array of its ends, which grows by
   * at least 10 kB.
   */
  intervalArray: 16_400,
  anonymous: {
    /** A set of single ports: a bitmap of all ports. */
    ports: 33_000,
    hash: 650,
    intervals: 900,
    /** Protocol and port ranges: tables by bits for each field of the key. */
    tuple: 50_000,
    tupleWithSourcePort: 83_000,
  },
} as const;

/**
 * Additional bytes of IPv6 keys in maps and interval sets; in hash sets they fit into the rounded
 * size.
 */
const IPV6_KEY = 32;

export function chainBytes({ rules }: Pick<Chain, 'rules'>): number {
  const own = OBJECT_BYTES.chain + (rules.length > 0 ? OBJECT_BYTES.rulesOfChain : 0);
  return rules.reduce((sum, rule) => sum + ruleBytes(rule), own);
}

export function mapBytes(map: VerdictMap): number {
  const wide = mapKeyLength(map) === WIDTH[6];
  return OBJECT_BYTES.map + elementsBytes(map.targets.length, map.interval, wide ? IPV6_KEY : 0);
}

export function setBytes({ key, family, interval, members, comment }: NamedSet): number {
  const count = members.singles.length / KEY_LENGTH[key][family] + members.prefixes.length;
  const own = OBJECT_BYTES.set + (comment === null || interval ? 0 : OBJECT_BYTES.commented);
  return own + elementsBytes(count, interval, interval && family === 6 ? IPV6_KEY : 0);
}

function elementsBytes(count: number, interval: boolean, more: number): number {
  if (count === 0) return 0;
  if (!interval) return count * (OBJECT_BYTES.element + more);
  return OBJECT_BYTES.intervalArray + count * (OBJECT_BYTES.interval + more);
}

function ruleBytes({ matches, counter, statement }: NftRule): number {
  if (isLookup(statement)) return OBJECT_BYTES.lookup;
  if (!counter && matches.length === 0) return OBJECT_BYTES.jump;
  const [none, one, more] = OBJECT_BYTES.rule;
  const own = matches.length === 0 ? none : matches.length === 1 ? one : more;
  return matches.reduce((sum, match) => sum + anonymousBytes(match), own as number);
}

function isLookup(statement: Statement): boolean {
  return 'map' in statement;
}

/** Memory of the anonymous sets of a match. */
function anonymousBytes(match: Match): number {
  const { ports, hash, intervals, tuple, tupleWithSourcePort } = OBJECT_BYTES.anonymous;
  const { element, interval } = OBJECT_BYTES;
  switch (match.match) {
    case 'port':
    case 'originalPort': {
      const count = match.ranges.length;
      if (count < 2) return 0;
      return portCount(match.ranges) === count ? ports : intervals + count * interval;
    }
    case 'portTuple': {
      const single = match.tuples.every(
        ({ ports: [first, last], sourcePorts }) =>
          first === last && (!match.withSourcePort || sourcePorts[0] === sourcePorts[1]),
      );
      if (single) return hash + match.tuples.length * element;
      return match.withSourcePort ? tupleWithSourcePort : tuple;
    }
    case 'notIn':
      return match.cidrs.length < 2 ? 0 : intervals + match.cidrs.length * interval;
    case 'interfaceGroup':
      return match.groups.length < 2 ? 0 : hash + match.groups.length * element;
    case 'icmp':
    case 'igmp':
      return match.types.length < 2 ? 0 : hash + match.types.length * element;
    case 'l4proto':
      return match.protocols.length < 2 ? 0 : hash + match.protocols.length * element;
    case 'address':
    case 'serviceTuple':
    case 'ctEstablished':
    case 'ctDnat':
    case 'ctConfirmed':
    case 'loopback':
    case 'dnsAnswer':
    case 'limit':
    case 'nfproto':
    case 'ctUntracked':
    case 'ctNew':
    case 'ctDirection':
    case 'ctNoSnat':
    case 'mark':
    case 'ctLabel':
    case 'notInSet':
    case 'pastDeadline':
    case 'noRouteBack':
    case 'fromSocket':
    case 'tcpSyn':
    case 'tcpNotFirst':
    case 'local':
    case 'vrf':
    case 'toMany':
    case 'notEther':
    case 'etherHeader':
      return 0;
  }
}
