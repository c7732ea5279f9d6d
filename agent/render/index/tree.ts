import type { PortRange } from '../../../apis/compiled.ts';
import { shortHash } from '../../../lib/sharing/hash.ts';
import { type IncrementalMap, mapIncrementally } from '../incremental-list.ts';
import { ruleText } from '../nft-text.ts';
import {
  type Chain,
  fixedChain,
  type Match,
  type NftRule,
  type PortProtocol,
  plainChain,
  plainRule,
} from '../ruleset.ts';
import { type Dispatched, FixedChains } from './build.ts';
import { byProtocol, type Dispatch, isItem, linearDispatch, withPorts } from './dispatch.ts';
import type { IndexRule, MatchEntry } from './match-entry.ts';
import { LEVELS, REPLICATION, SHORT } from './plan.ts';
import { reachable } from './planner.ts';
import { type PortPieces, portPieces } from './port-pieces.ts';

/**
 * The index for iptables, which has no verdict maps: by protocol, then through a tree of chains
 * that compare the destination port, to a list of the rules that can match there. Rules for one
 * port that differ in their peers stay a list, because iptables can't look up an address for a
 * verdict. Traffic that is matched by its original port has no tree. Reuses earlier results as
 * Indexer does.
 */
export class TreeIndexer {
  /** By the name of the chain that receives the protocol's packets. */
  readonly #parts = new Map<string, Part>();

  readonly dispatch: Dispatch = (name, entries, options) => {
    if (options.original) return linearDispatch(name, entries, options);
    const levels = (options.levels ?? LEVELS) - BUILT_IN;
    return byProtocol(name, entries, options.scope, {
      part: (chain, toItem) => this.#part(chain, entries, toItem),
      build: (of, part) => built(of.name, withPorts(of.protocol), levels, part),
    });
  };

  #part(name: string, entries: readonly IndexRule[], toItem: (entry: IndexRule) => MatchEntry | null): Part {
    const before = this.#parts.get(name);
    if (before?.of.from === entries) return before;
    const of = mapIncrementally(before?.of ?? null, entries, toItem);
    const isSame = before !== undefined && !of.made.some(isItem) && !of.gone.some(isItem);
    const part: Part = {
      of,
      items: isSame ? before.items : of.to.filter(isItem),
      chains: before?.chains ?? new FixedChains(),
      built: isSame ? before.built : null,
    };
    this.#parts.set(name, part);
    return part;
  }
}

/**
 * One level is taken by the built-in chain that calls our base chain, which an nftables table
 * doesn't have. iptables-nft is subject to the kernel's limit of 16 chains that lead to each other,
 * by goto as well as by jump (-EMLINK).
 */
const BUILT_IN = 1;

/** The rules that can match packets of one protocol, and the result built for them. */
interface Part {
  readonly of: IncrementalMap<IndexRule, MatchEntry | null>;
  readonly items: readonly MatchEntry[];
  readonly chains: FixedChains;
  built: (Dispatched & { readonly levels: number }) | null;
}

function built(name: string, protocol: PortProtocol | null, levels: number, part: Part): Dispatched {
  if (part.built?.levels !== levels) {
    part.chains.next();
    part.built = { ...build(name, protocol, levels, part), levels };
  }
  return part.built;
}

function build(
  name: string,
  protocol: PortProtocol | null,
  levels: number,
  { items, chains }: Pick<Part, 'items' | 'chains'>,
): Dispatched {
  const builder = protocol === null ? null : new TreeBuilder(name, protocol, chains);
  const rules = builder?.rules(items, levels) ?? jumps(reachable(items, NOTHING));
  return { chains: [plainChain(name, rules), ...(builder?.chains.values() ?? [])], maps: [] };
}

/** The fields that were compared on the way to a list. */
const NOTHING = { ports: false, sources: false, addresses: false } as const;
const PORT = { ...NOTHING, ports: true } as const;

/** A range of ports, and the chain that tries the rules for all of them. */
interface Leaf {
  readonly range: PortRange;
  readonly chain: string;
}

class TreeBuilder {
  readonly chains = new Map<string, Chain>();
  readonly #name: string;
  readonly #protocol: PortProtocol;
  readonly #known: FixedChains;

  constructor(name: string, protocol: PortProtocol, known: FixedChains) {
    this.#name = name;
    this.#protocol = protocol;
    this.#known = known;
  }

  /**
   * Rules for every port that come before all others are tried first, and those after all others
   * last; for the rules in between the ports are compared. `levels` is the number of chains allowed
   * below this one, without those of the rules.
   */
  rules(given: readonly MatchEntry[], levels: number): NftRule[] {
    const items = reachable(given, NOTHING);
    const first = items.findIndex(({ ranges }) => ranges !== null);
    const end = items.findLastIndex(({ ranges }) => ranges !== null) + 1;
    if (end - first <= SHORT) return jumps(items);
    const [head, middle, tail] = [items.slice(0, first), items.slice(first, end), items.slice(end)];
    const parts = inParts(middle);
    return [
      ...jumps(head),
      ...parts.flatMap((part, i) => {
        // A packet returns from a tree only if the tree was called by a jump.
        const isLast = i === parts.length - 1 && tail.length === 0;
        const tree = part.pieces && this.#tree(part.items, part.pieces, isLast ? levels : levels - 1);
        if (tree === null) return jumps(part.items);
        return isLast ? tree : [plainRule({ kind: 'jump', chain: this.#chain(tree) })];
      }),
      ...jumps(tail),
    ];
  }

  /** Null if that takes too many levels. */
  #tree(items: readonly MatchEntry[], pieces: PortPieces, levels: number): NftRule[] | null {
    const pick = (members: readonly number[]): readonly MatchEntry[] =>
      reachable(
        members.map((i) => items[i] as MatchEntry),
        PORT,
      );
    const lists = pieces.lists.map(pick);
    const others = pick(pieces.others);
    const depth = levels - ([...lists, others].some(({ length }) => length > 1) ? 1 : 0);
    if (depth < 0) return null;
    const chains = lists.map((list) => this.#list(list));
    const rest = others.length === 0 ? [] : [plainRule({ kind: 'goto', chain: this.#list(others) })];
    return this.#node(leaves(pieces, chains), depth, rest);
  }

  /**
   * Each rule sends a range of ports to another chain, and the rest of this chain sees only the
   * other ports. So a packet passes one rule for each step, and the best size of the range follows
   * from the number of gotos still allowed (see `reach`).
   */
  #node(leaves: readonly Leaf[], depth: number, rest: readonly NftRule[]): NftRule[] {
    const rules: NftRule[] = [];
    let left = leaves;
    while (left.length > SHORT && depth > 0) {
      const at = splitAt(left, depth);
      const away = left.slice(0, at);
      left = left.slice(at);
      const [only] = away;
      const chain =
        only !== undefined && at === 1 ? only.chain : this.#chain(this.#node(away, depth - 1, rest));
      rules.push(plainRule({ kind: 'goto', chain }, this.#port(rangeOf(away))));
    }
    return [
      ...rules,
      ...left.map(({ range, chain }) => plainRule({ kind: 'goto', chain }, this.#port(range))),
      ...rest,
    ];
  }

  #port(range: PortRange): Match {
    return { match: 'port', protocol: this.#protocol, field: 'dport', ranges: [range] };
  }

  /** The name of a chain that tries these rules in order. */
  #list(items: readonly MatchEntry[]): string {
    const [only] = items;
    return only !== undefined && items.length === 1 ? only.chain : this.#chain(jumps(items));
  }

  #chain(rules: readonly NftRule[]): string {
    const content = rules.map(ruleText).join('\n');
    const chain = this.#known.get(content, () =>
      fixedChain(`${this.#name}-tree-${shortHash(10, content)}`, rules),
    );
    this.chains.set(chain.name, chain);
    return chain.name;
  }
}

/** Rules in order, and the pieces of their ports; null: they are tried one by one. */
interface TreePart {
  readonly items: readonly MatchEntry[];
  readonly pieces: PortPieces | null;
}

/** A tree for fewer rules than this, among many, saves nothing. */
const FEW = 16;

/**
 * Divides the rules into trees that each keep to their share of memory: as few as repeated halving
 * finds.
 */
function inParts(items: readonly MatchEntry[]): TreePart[] {
  const parts: TreePart[] = [];
  let size = items.length;
  for (let from = 0; from < items.length; from += size) {
    // Does not try everything left each time: for many overlapping ranges that would take time
    // quadratic in their number.
    size = Math.min(4 * size, items.length - from);
    const take = (): readonly MatchEntry[] => items.slice(from, from + size);
    let pieces = portPieces(take(), REPLICATION * size);
    while (pieces === null && size > FEW) {
      size = Math.max(FEW, size >> 1);
      pieces = size > FEW ? portPieces(take(), REPLICATION * size) : null;
    }
    parts.push({ items: take(), pieces });
  }
  return parts;
}

/** Sorted and disjoint; adjacent ranges lead to different chains. */
function leaves(
  { ports, planOfPort, ranges, planOfRange }: PortPieces,
  chains: readonly string[],
): readonly Leaf[] {
  const chainOf = (plan: number | undefined): string => chains[plan ?? 0] ?? '';
  const pieces: Leaf[] = [
    ...ports.map((port, i) => ({ range: [port, port] as const, chain: chainOf(planOfPort[i]) })),
    ...ranges.map((range, i) => ({ range, chain: chainOf(planOfRange[i]) })),
  ].sort((a, b) => a.range[0] - b.range[0]);
  const found: Leaf[] = [];
  for (const leaf of pieces) {
    const before = found.at(-1);
    if (before?.chain !== leaf.chain || before.range[1] + 1 !== leaf.range[0]) found.push(leaf);
    else found[found.length - 1] = { ...leaf, range: [before.range[0], leaf.range[1]] };
  }
  return found;
}

/**
 * The range from the first to the last of neighbouring leaves; ports between them belong to no
 * leaf.
 */
function rangeOf(leaves: readonly Leaf[]): PortRange {
  return [leaves[0]?.range[0] ?? 0, leaves.at(-1)?.range[1] ?? 0];
}

/**
 * The number of leaves possible if a packet passes at most `walk` rules and takes at most `depth`
 * gotos to further chains of the tree. Each rule divides the leaves into those that are one rule
 * nearer and those that are one rule and one goto nearer, which adds up to binomial coefficients.
 */
function reach(walk: number, depth: number): number {
  let total = 0;
  let ways = 1;
  for (let gotos = 0; gotos <= depth + 1 && gotos < walk; gotos++) {
    total += ways;
    ways = (ways * (walk - 1 - gotos)) / (gotos + 1);
  }
  return total;
}

/**
 * How many leaves to send away: about as many as make the longest walk as short as possible. Among
 * the positions near that number it takes the first in a fixed order of ports, so that a leaf more
 * or less elsewhere leaves the cuts, and so the chains, as they are.
 */
function splitAt(leaves: readonly Leaf[], depth: number): number {
  let walk = 1;
  while (reach(walk, depth) < leaves.length) walk++;
  const [fewer, most] = [reach(walk - 1, depth), reach(walk, depth)];
  const part = (leaves.length - fewer) / (most - fewer);
  // Interpolates between the shares for this walk and for one that is shorter by 1: the share
  // doesn't jump when one more leaf needs a longer walk.
  const share = part * shareAway(walk, depth) + (1 - part) * shareAway(walk - 1, depth);
  const best = Math.max(1, Math.round(share * leaves.length));
  const slack = Math.min(best, leaves.length - best) >> SLACK;
  let found = best;
  for (let i = Math.max(1, best - slack); i <= Math.min(leaves.length - 1, best + slack); i++) {
    if (rank(leaves[i]) < rank(leaves[found])) found = i;
  }
  return found;
}

function shareAway(walk: number, depth: number): number {
  return reach(walk - 1, depth - 1) / reach(walk, depth);
}

/**
 * The positions near a number: a quarter of the smaller part to each side, as a shift to the right.
 */
const SLACK = 2;

/** Different for any two ports: a product with an odd number, modulo a power of 2. */
function rank(leaf: Leaf | undefined): number {
  return ((leaf?.range[0] ?? 0) * 28_411) & 0xff_ff;
}

function jumps(items: readonly MatchEntry[]): NftRule[] {
  return items.map(({ chain }) => plainRule({ kind: 'jump', chain }));
}
