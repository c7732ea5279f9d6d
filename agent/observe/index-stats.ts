import type { NodeState, RuleSource } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { WIDTH } from '../../lib/net/address.ts';
import { portCount } from '../../lib/net/interval.ts';
import { type BuiltPart, Indexer } from '../render/index/dispatch.ts';
import type { Plan } from '../render/index/plan.ts';
import { ownSize } from '../render/index/planner.ts';
import { renderer } from '../render/render.ts';
import {
  type Chain,
  KEY_LENGTH,
  type L4Protocol,
  type Match,
  type NamedSet,
  type NftRule,
  type Ruleset,
} from '../render/ruleset.ts';
import { mapKeyLength, type VerdictMap } from '../render/verdict-map.ts';
import { aimAt, IndexWalk } from './index-walk.ts';

/** Cost and benefit of a node's rule index. */
export interface IndexStats {
  readonly node: string;
  /**
   * In the order of the table. A protocol without rules of its own is part of the entry for other
   * protocols.
   */
  readonly parts: readonly PartStats[];
  readonly memory: IndexMemory;
  /** The rules with the most entries in the index, in descending order; at most COSTLIEST. */
  readonly costliest: readonly RuleEntries[];
}

/** Statistics of one index for the packets of one protocol. */
export interface PartStats {
  readonly index: string;
  /** Null: all protocols without an entry of their own. */
  readonly protocol: L4Protocol | null;
  /** Number of rules that can match such a packet. */
  readonly rules: number;
  /** How the rules are found, human-readable. */
  readonly way: string;
  /** Number of indexes that are searched in sequence. */
  readonly pieces: number;
  /**
   * Rules that one packet is tested against, up to the rule that ends the search. `mean`: over one
   * packet per rule, from the rule's first peer to its first port; null if no rule has peers.
   * `worst`: an upper bound for any packet.
   */
  readonly tries: { readonly mean: number | null; readonly worst: number };
  /** Upper bound of the map look-ups of one packet. */
  readonly lookups: number;
  readonly maps: number;
  /** Elements in these maps. */
  readonly elements: number;
  /** Jumps to rules, in all lists. */
  readonly listEntries: number;
  /**
   * Elements and list entries, divided by the number of objects of the rules themselves (ownSize);
   * at most REPLICATION.
   */
  readonly replication: number;
  /** Estimated kernel memory of the chains and maps, in bytes. */
  readonly memory: number;
}

/** Estimated kernel memory in bytes. */
interface IndexMemory {
  readonly index: number;
  /** Memory of the rules' own chains, and of the sets with their members. */
  readonly rules: number;
}

/** The number of index entries of one rule. */
interface RuleEntries {
  readonly source: RuleSource;
  /** List entries and map elements in all indexes that lead to the rule's chain. */
  readonly entries: number;
}

const COSTLIEST = 10;
const ONE_BY_ONE = 'one by one';

/**
 * Renders the state and measures the index. Pure; throws a RenderError as render does. A linear
 * table has no parts.
 */
export function indexStats(state: NodeState, config: Config): IndexStats {
  const built: BuiltPart[] = [];
  const ruleset = renderer(config, true, new Indexer((part) => built.push(part)))(state);
  const enforced = new Set(state.rules.flatMap(({ id, mode }) => (mode === 'Enforce' ? id : [])));
  const parts = built.filter(({ items }) => items.length > 0).map((part) => toPartStats(part, enforced));
  return {
    node: state.node,
    parts,
    memory: { index: parts.reduce((sum, { memory }) => sum + memory, 0), rules: rulesBytes(ruleset) },
    costliest: costliest(built, ruleset),
  };
}

function toPartStats(
  { index, protocol, items, plan, dispatched }: BuiltPart,
  enforced: ReadonlySet<string>,
): PartStats {
  const { chains, maps } = dispatched;
  const walk = new IndexWalk(dispatched, items);
  const tries = items.flatMap((item) => {
    const packet = aimAt(item);
    return packet === null ? [] : walk.tested(packet, enforced.has(item.id) ? item : null).length;
  });
  const elements = maps.reduce((sum, map) => sum + map.targets.length, 0);
  const listEntries = jumpsToRules({ dispatched }).length;
  return {
    index,
    protocol,
    rules: items.length,
    way: wayOf(plan),
    pieces: plan.kind === 'sequence' ? plan.parts.length : 1,
    tries: {
      mean: tries.length === 0 ? null : tries.reduce((sum, one) => sum + one, 0) / tries.length,
      worst: plan.tries,
    },
    lookups: walk.lookups,
    maps: maps.length,
    elements,
    listEntries,
    replication: (elements + listEntries) / ownSize(items),
    memory:
      chains.reduce((sum, chain) => sum + chainBytes(chain), 0) +
      maps.reduce((sum, map) => sum + mapBytes(map), 0),
  };
}

/**
 * "by port, then address": the first look-up, then the one that follows it for at least some
 * packets.
 */
function wayOf(plan: Plan): string {
  switch (plan.kind) {
    case 'list':
      return ONE_BY_ONE;
    case 'ports':
      return `by port${splits(plan, 'addresses') ? ', then address' : ''}`;
    case 'addresses':
      return `by address${splits(plan, 'ports') ? ', then port' : ''}`;
    case 'sequence':
      return [...Map.groupBy(plan.parts.map(wayOf), (way) => way)]
        .map(([way, { length }]) => (length > 1 && way !== ONE_BY_ONE ? `${length} × ${way}` : way))
        .join('; ');
  }
}

/** Whether an inner plan is of this kind. */
function splits(plan: Plan, kind: Plan['kind']): boolean {
  switch (plan.kind) {
    case 'list':
      return false;
    case 'ports':
    case 'addresses':
      return [...plan.plans, ...(plan.others === null ? [] : [plan.others])].some(
        (inner) => inner.kind === kind || splits(inner, kind),
      );
    case 'sequence':
      return plan.parts.some((part) => part.kind === kind || splits(part, kind));
  }
}

/** The names of the rules' chains, once for each list entry. */
function jumpsToRules({ dispatched: { chains } }: Pick<BuiltPart, 'dispatched'>): string[] {
  const own = new Set(chains.map(({ name }) => name));
  return chains.flatMap(({ rules }) =>
    rules.flatMap(({ statement }) =>
      statement.kind === 'jump' && !own.has(statement.chain) ? statement.chain : [],
    ),
  );
}

function costliest(built: readonly BuiltPart[], { chains }: Ruleset): RuleEntries[] {
  const entries = new Map<string, number>();
  const count = (chain: string, by: number): void => void entries.set(chain, (entries.get(chain) ?? 0) + by);
  for (const part of built) {
    for (const chain of jumpsToRules(part)) count(chain, 1);
    for (const { targets, verdicts } of part.dispatched.maps) {
      for (const target of targets) count(verdicts[target]?.chain ?? '', 1);
    }
  }
  return [...entries]
    .flatMap(([chain, number]) => {
      const source = chains.get(chain)?.source ?? null;
      return source === null ? [] : [{ source, entries: number }];
    })
    .sort((a, b) => b.entries - a.entries)
    .slice(0, COSTLIEST);
}

function rulesBytes({ chains, sets }: Ruleset): number {
  let bytes = 0;
  for (const chain of chains.values()) if (chain.ruleId !== null) bytes += chainBytes(chain);
  for (const set of sets.values()) bytes += setBytes(set);
  return bytes;
}

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
  if ('map' in statement) return OBJECT_BYTES.lookup;
  if (!counter && matches.length === 0) return OBJECT_BYTES.jump;
  const [none, one, more] = OBJECT_BYTES.rule;
  const own = matches.length === 0 ? none : matches.length === 1 ? one : more;
  return matches.reduce((sum, match) => sum + anonymousBytes(match), own as number);
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
    case 'toVrf':
    case 'toMany':
    case 'notEther':
    case 'etherHeader':
      return 0;
  }
}
