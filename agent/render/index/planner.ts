import { memberTotal } from '../../../lib/net/member-set.ts';
import type { MatchEntry, Peers } from './match-entry.ts';
import {
  type AddressesPlan,
  LEVELS,
  type ListPlan,
  type Plan,
  PlanCache,
  type PortsPlan,
  REPLICATION,
  SHORT,
} from './plan.ts';
import { type PortPieces, portPieces } from './port-pieces.ts';

/**
 * The fields that were looked up on the way here, and how many chains may still call each other
 * below this one, without that of the rule.
 */
interface Known extends LookedUp {
  readonly levels: number;
}

interface LookedUp {
  readonly ports: boolean;
  readonly sources: boolean;
  readonly addresses: boolean;
}

export interface PlanOptions {
  /** Whether the protocol has ports. */
  readonly ports: boolean;
  /**
   * How many chains may call each other below the first one. The kernel allows 16 levels
   * (NFT_JUMP_STACK_SIZE), including everything around the index.
   */
  readonly levels?: number;
  readonly cache?: PlanCache;
}

/** The plan for rules in evaluation order, and whether it depends on the members of the peers. */
export function planned(
  items: readonly MatchEntry[],
  { ports, levels = LEVELS, cache = new PlanCache() }: PlanOptions,
): { readonly plan: Plan; readonly needsMembers: boolean } {
  const planner = new Planner(cache);
  const found = planner.sequence(items, { levels, ports: !ports, sources: !ports, addresses: false });
  return { plan: found, needsMembers: planner.needsMembers };
}

class Planner {
  needsMembers = false;
  readonly #cache: PlanCache;

  constructor(cache: PlanCache) {
    this.#cache = cache;
  }

  /**
   * Divides the rules into pieces that each keep to their share of memory, as few as repeated
   * halving finds. Rules for everything at the end are tried for every packet.
   */
  sequence(given: readonly MatchEntry[], known: Known): Plan {
    const items = reachable(given, known);
    const end = items.findLastIndex((item) => !isUniversal(item)) + 1;
    // Several parts have chains of their own (see build.ts).
    const inParts = { ...known, levels: known.levels - 1 };
    const parts: Plan[] = [];
    for (let from = 0; from < end; ) {
      let to = end;
      let found: Plan | null = null;
      for (;;) {
        const piece = items.slice(from, to);
        const below = piece.length === items.length ? known : inParts;
        found = this.quick(piece, known) ?? this.best(piece, below, REPLICATION * ownSize(piece));
        if (found !== null) break;
        to = from + ((to - from) >> 1);
      }
      parts.push(found);
      from = to;
    }
    if (end < items.length) parts.push(this.#list(items.slice(end), known));
    const [only] = parts;
    if (only !== undefined && parts.length === 1) return only;
    if (only === undefined) return this.#list([], known);
    return { kind: 'sequence', items, parts, size: sum(parts, 'size'), tries: sum(parts, 'tries') };
  }

  /** The plan that `best` would find if one lookup of the port is enough; else null. */
  quick(items: readonly MatchEntry[], known: Known): Plan | null {
    const tried = this.#list(items, known);
    if (tried.tries <= SHORT) return tried;
    const cut =
      known.ports || known.levels < 1 ? null : this.portLists(items, known, 2 * items.length, 'dport');
    return cut?.isShort ? this.byPorts(items, cut, known, items.length) : null;
  }

  /** Null if all ways take more than `limit`. */
  best(given: readonly MatchEntry[], known: Known, limit: number): Plan | null {
    const [only] = given;
    if (only !== undefined && given.length === 1) return this.#cache.singleRuleList(only);
    const items = reachable(given, known);
    const tried = this.#list(items, known);
    if (tried.tries <= SHORT || known.levels < 1) return tried;
    const splitsPorts = !known.ports && items.some(({ ranges }) => ranges !== null);
    const splitsAddresses = !known.addresses && items.some(({ peers }) => peers !== null);
    if (!splitsPorts && !splitsAddresses) return this.bySources(items, known, limit) ?? tried;
    const cut = splitsPorts ? this.portLists(items, known, limit, 'dport') : null;
    // In order of the cost of planning: one lookup, the other, both.
    const byPorts = cut?.isShort ? this.byPorts(items, cut, known, limit) : null;
    if (byPorts !== null && byPorts.size <= items.length) return byPorts;
    this.needsMembers = true;
    const byAddresses = splitsAddresses ? this.byAddresses(items, known, limit) : null;
    const ways: Plan[] = [byPorts, byAddresses].filter((way) => way !== null);
    if (cut?.isShort === false && !ways.some((way) => isShort(way) && way.size <= ownSize(items))) {
      ways.push(...[this.byPorts(items, cut, known, limit)].filter((way) => way !== null));
    }
    return ways.reduce((a: Plan | null, b) => (a === null || isBetter(b, a) ? b : a), null);
  }

  /** For rules that neither destination ports nor addresses tell apart. */
  bySources(items: readonly MatchEntry[], known: Known, limit: number): Plan | null {
    if (known.sources || !items.some(({ sources }) => sources !== null)) return null;
    this.needsMembers = true;
    const cut = this.portLists(items, known, limit, 'sport');
    return cut === null ? null : this.byPorts(items, cut, known, limit);
  }

  /** Null if they take more than `limit`. */
  portLists(
    items: readonly MatchEntry[],
    known: Known,
    limit: number,
    field: PortsPlan['field'],
  ): PortLists | null {
    const pieces = portPieces(items, limit, field === 'dport' ? 'ranges' : 'sources');
    if (pieces === null || pieces.ports.length + pieces.ranges.length > limit) return null;
    const found = withPorts(known, field);
    const pick = (members: readonly number[]): MatchEntry[] => members.map((i) => items[i] as MatchEntry);
    const lists = pieces.lists.map((members) =>
      members.length === 1
        ? this.#cache.singleRuleList(items[members[0] ?? 0] as MatchEntry).items
        : pick(members),
    );
    const others = pieces.others.length > 0 ? pick(pieces.others) : null;
    const long = [...lists, ...(others === null ? [] : [others])].filter(
      (one) => one.length > SHORT && this.#list(reachable(one, found), found).tries > SHORT,
    );
    return { field, pieces, lists, others, long, isShort: long.length === 0 };
  }

  byPorts(items: readonly MatchEntry[], cut: PortLists, known: Known, limit: number): PortsPlan | null {
    const { field, pieces } = cut;
    const { ports, planOfPort, ranges, planOfRange } = pieces;
    const found = withPorts(known, field);
    let size = ports.length + ranges.length;
    // One address space for all addresses by which the lists may be divided.
    if (!known.addresses && cut.long.length > 1)
      this.#cache.space(distinctPeers(this.#small(cut.long.flat())));
    const take = (one: readonly MatchEntry[]): Plan | null => {
      const inner = this.best(one, found, limit - size);
      size += inner?.size ?? 0;
      return size > limit ? null : inner;
    };
    const plans: Plan[] = [];
    for (const one of cut.lists) {
      const inner = take(one);
      if (inner === null) return null;
      plans.push(inner);
    }
    const others = cut.others === null ? null : take(cut.others);
    if (cut.others !== null && others === null) return null;
    const tries = Math.max(most(plans), others?.tries ?? 0);
    return {
      kind: 'ports',
      field,
      items,
      ports,
      planOfPort,
      ranges,
      planOfRange,
      plans,
      others,
      size,
      tries,
    };
  }

  byAddresses(given: readonly MatchEntry[], known: Known, limit: number): AddressesPlan | null {
    const items = this.#small(given);
    const wanted = distinctPeers(items);
    if (wanted.length === 0) return null;
    const classes = this.#cache.space(wanted).restrict(wanted);
    let size = 0;
    for (const { classOfSingle, classOfRange } of classes.tables)
      size += classOfSingle.length + classOfRange.length;
    if (size > limit) return null;
    const number = new Map(classes.peers.map(({ key }, i) => [key, i]));
    const ofPeers: number[][] = classes.peers.map(() => []);
    const anybody: number[] = [];
    for (const [i, item] of items.entries()) {
      if (item.peers === null) anybody.push(i);
      else ofPeers[number.get(item.peers.key) ?? 0]?.push(i);
    }
    const found = { ...known, levels: known.levels - 1, addresses: true };
    const take = (members: readonly number[]): Plan | null => {
      const inner = this.best(
        members.map((i) => items[i] as MatchEntry),
        found,
        limit - size,
      );
      size += inner?.size ?? 0;
      return size > limit ? null : inner;
    };
    const plans: Plan[] = [];
    for (const combination of classes.peersOf) {
      const [only = 0] = combination;
      const alone = combination.length === 1 && anybody.length === 0;
      const members = alone
        ? (ofPeers[only] ?? [])
        : [...combination.flatMap((peer) => ofPeers[peer] ?? []), ...anybody].sort((a, b) => a - b);
      const inner = take(members);
      if (inner === null) return null;
      plans.push(inner);
    }
    // An address without a class belongs to none of the peers: only the rules for any address
    // apply.
    const others = anybody.length > 0 ? take(anybody) : null;
    if (anybody.length > 0 && others === null) return null;
    const tries = Math.max(most(plans), others?.tries ?? 0);
    return { kind: 'addresses', items: given, classes, plans, others, size, tries };
  }

  /**
   * The same items, with those of large peers replaced by copies for any address if only a few
   * peers are large. A map element for each of their members would make every change of the table
   * expensive: the kernel walks all elements of verdict maps when a rule or a verdict is added.
   */
  #small(items: readonly MatchEntry[]): readonly MatchEntry[] {
    const large = new Set<string>();
    for (const { key, members } of distinctPeers(items)) if (memberTotal(members) > LARGE) large.add(key);
    if (large.size === 0 || large.size > FEW) return items;
    return items.map((item) =>
      item.peers !== null && large.has(item.peers.key) ? this.#cache.forAnyPeer(item) : item,
    );
  }

  /** A list of one rule takes no memory of its own, because verdicts lead directly to the rule. */
  #list(items: readonly MatchEntry[], known: Known): ListPlan {
    const [only] = items;
    if (only !== undefined && items.length === 1) return this.#cache.singleRuleList(only);
    const sure = items.findIndex((item) => isSure(item, known));
    return {
      kind: 'list',
      items,
      size: items.length > 1 ? items.length : 0,
      tries: sure < 0 ? items.length : sure + 1,
    };
  }
}

function withPorts(known: Known, field: PortsPlan['field']): Known {
  const levels = known.levels - 1;
  return field === 'dport' ? { ...known, levels, ports: true } : { ...known, levels, sources: true };
}

interface PortLists {
  readonly field: PortsPlan['field'];
  readonly pieces: PortPieces;
  readonly lists: readonly (readonly MatchEntry[])[];
  readonly others: readonly MatchEntry[] | null;
  /** The lists that try many rules. */
  readonly long: readonly (readonly MatchEntry[])[];
  readonly isShort: boolean;
}

/** Peers with more members than this are large. */
const LARGE = 4096;
/** Up to this many large peers are tried through their own sets. */
const FEW = 2;

function isShort({ tries }: Plan): boolean {
  return tries <= SHORT;
}

/** Prefers fewer tries if more than SHORT, else less memory. */
function isBetter(a: Plan, b: Plan): boolean {
  const tries = (one: Plan): number => Math.max(SHORT, one.tries);
  return tries(a) !== tries(b) ? tries(a) < tries(b) : a.size < b.size;
}

function most(plans: readonly Plan[]): number {
  let tries = 0;
  for (const one of plans) tries = Math.max(tries, one.tries);
  return tries;
}

function sum(plans: readonly Plan[], what: 'size' | 'tries'): number {
  return plans.reduce((total, one) => total + one[what], 0);
}

function isUniversal({ ranges, sources, peers }: MatchEntry): boolean {
  return ranges === null && sources === null && peers === null;
}

/** Whether every packet that gets here matches the item, and evaluation ends there. */
function isSure({ ranges, sources, peers, final }: MatchEntry, known: LookedUp): boolean {
  return (
    final &&
    (ranges === null || known.ports) &&
    (sources === null || known.sources) &&
    (peers === null || known.addresses)
  );
}

/**
 * Leaves out the rules that no packet reaches: those behind a rule that is sure to match, or behind
 * one for the same peers that is sure to match these. (An address that leaves a set is removed from
 * the maps first: see agent/apply/plan/transaction.ts.)
 */
export function reachable(items: readonly MatchEntry[], known: LookedUp): readonly MatchEntry[] {
  const decided = new Set<string>();
  const found: MatchEntry[] = [];
  for (const item of items) {
    if (item.peers !== null && decided.has(item.peers.key)) continue;
    found.push(item);
    if (isSure(item, known)) return found;
    if (item.peers !== null && isSure(item, { ...known, addresses: true })) decided.add(item.peers.key);
  }
  return found;
}

function distinctPeers(items: readonly MatchEntry[]): Peers[] {
  const found = new Map<string, Peers>();
  for (const { peers } of items) if (peers !== null) found.set(peers.key, peers);
  return [...found.values()];
}

/**
 * The number of kernel objects that the rules need without an index: for each rule its chain, one
 * nft rule for each family and its port ranges; for each list of peers one set for each family, and
 * the members.
 */
export function ownSize(items: readonly MatchEntry[]): number {
  let size = 3 * items.length;
  for (const { ranges, sources } of items) size += (ranges?.length ?? 0) + (sources?.length ?? 0);
  for (const { members } of distinctPeers(items)) size += 2 + memberTotal(members);
  return size;
}
