import { type IncrementalMap, mapIncrementally, unequalElements } from '../incremental-list.ts';
import { protocolChain } from '../name.ts';
import { plainChain, plainRule } from '../plain.ts';
import { ALL_PORTS } from '../ports.ts';
import type { L4Protocol, NftRule, PortProtocol } from '../ruleset.ts';
import { buildIndex, type Dispatched, FixedChains, type LookupFields } from './build.ts';
import {
  type IndexRule,
  type MatchEntry,
  PORT_PROTOCOLS,
  portItem,
  protocolItem,
  type Scope,
} from './match-entry.ts';
import { LEVELS, type Plan, PlanCache, withReplacements } from './plan.ts';
import { type PlanOptions, planned } from './planner.ts';

const OTHER_PROTOCOLS = ['icmp', 'icmpv6', 'igmp'] as const;

export interface DispatchOptions extends Pick<LookupFields, 'original' | 'address'> {
  readonly scope: Scope;
  /** As in PlanOptions. */
  readonly levels?: number;
}

/**
 * The index in front of the rule chains. It only skips rules that can't match; it never decides.
 * Input: the rules in evaluation order, each with its chain. Output: an entry chain that tries, for
 * every packet, every rule that could match it, in order, up to the first that is sure to match.
 */
export type Dispatch = (name: string, entries: readonly IndexRule[], options: DispatchOptions) => Dispatched;

/** Tries every rule. */
export const linearDispatch: Dispatch = (name, entries) => ({
  chains: [
    plainChain(
      name,
      entries.map(({ chain }) => plainRule({ kind: 'jump', chain })),
    ),
  ],
  maps: [],
});

/**
 * Indexes by protocol, then as plan.ts finds best for the rules of each protocol. Reuses from one
 * call to the next everything known of entries that are the same objects: if no entry of a protocol
 * has changed, everything made for it.
 */
export class Indexer {
  /** By the name of the chain that receives the protocol's packets. */
  readonly #parts = new Map<string, Part>();
  readonly #onBuilt: (part: BuiltPart) => void;

  /** Calls `onBuilt` for each part it builds, for explanations of the index. */
  constructor(onBuilt: (part: BuiltPart) => void = () => undefined) {
    this.#onBuilt = onBuilt;
  }

  readonly dispatch: Dispatch = (name, entries, { scope, levels = LEVELS, ...fields }) =>
    byProtocol(name, scope, {
      part: (chain, toItem) => this.#part(chain, entries, toItem),
      build: (of, part) =>
        this.#build({ index: name, ...of, levels }, part, { ...fields, protocol: withPorts(of.protocol) }),
    });

  #part(name: string, entries: readonly IndexRule[], toItem: (entry: IndexRule) => MatchEntry | null): Part {
    const before = this.#parts.get(name);
    if (before?.of.from === entries) return before;
    const of = mapIncrementally(before?.of ?? null, entries, toItem);
    const { chains = new FixedChains(), cache = new PlanCache(), built = null } = before ?? {};
    // For most protocols nothing has changed.
    const isSame = before !== undefined && !of.made.some(isItem) && !of.gone.some(isItem);
    const items = isSame ? before.items : of.to.filter(isItem);
    const others = isSame ? [] : otherItems(before?.items ?? [], items, built?.needsMembers ?? true);
    const part: Part = { of, chains, cache, items, built: null, replaced: null };
    if (built !== null && others !== null) {
      // A plan may hold the copy of an item for any address (see planner.ts).
      const copies = others.map(([was, is]) => [cache.forAnyPeer(was), cache.forAnyPeer(is)] as const);
      const replaced = { ...built, plan: withReplacements(built.plan, [...others, ...copies]) };
      if (others.every(([was, is]) => was.chain === is.chain)) part.built = replaced;
      else part.replaced = replaced;
    }
    this.#parts.set(name, part);
    return part;
  }

  #build(
    of: Pick<BuiltPart, 'index' | 'name' | 'protocol'> & { readonly levels: number },
    part: Part,
    fields: LookupFields,
  ): Dispatched {
    if (part.built?.levels !== of.levels) {
      const { items, chains, cache, replaced } = part;
      chains.next();
      const { levels } = of;
      const { plan, needsMembers } =
        replaced?.levels === levels
          ? replaced
          : this.#plan(items, { ports: fields.protocol !== null, levels, cache });
      part.built = { ...buildIndex(of.name, plan, fields, chains), plan, needsMembers, levels };
      part.replaced = null;
      this.#onBuilt({ ...of, items, plan, dispatched: part.built });
    }
    return part.built;
  }

  #plan(items: readonly MatchEntry[], options: Required<PlanOptions>): ReturnType<typeof planned> {
    options.cache.next();
    return planned(items, options);
  }
}

/** Builds the index for the rules of each protocol. */
export interface ByProtocol<P extends { readonly items: readonly MatchEntry[] }> {
  readonly part: (chain: string, toItem: (entry: IndexRule) => MatchEntry | null) => P;
  readonly build: (of: Pick<BuiltPart, 'name' | 'protocol'>, part: P) => Dispatched;
}

/**
 * Makes an index whose entry chain sends the packets of each protocol that rules name to a chain of
 * its own.
 */
export function byProtocol<P extends { readonly items: readonly MatchEntry[] }>(
  name: string,
  scope: Scope,
  { part, build }: ByProtocol<P>,
): Dispatched {
  // Rules that name neither ports nor protocols are tried for every packet; a protocol without
  // other rules needs no chain.
  const rest = part(name, (entry) => protocolItem(entry, null));
  const found: Dispatched[] = [];
  const rules: NftRule[] = [];
  const add = (protocol: L4Protocol, of: P): void => {
    const chain = protocolChain(name, protocol);
    found.push(build({ name: chain, protocol }, of));
    // A packet of the protocol does not return from there. These are plain rules, because a verdict
    // map here would leak packets (ADR 2).
    rules.push(plainRule({ kind: 'goto', chain }, { match: 'l4proto', protocols: [protocol] }));
  };
  for (const protocol of PORT_PROTOCOLS) {
    const ports = scope === null ? [ALL_PORTS] : (scope.get(protocol) ?? []);
    const of = part(protocolChain(name, protocol), (entry) => portItem(entry, protocol, ports));
    if (of.items.length === (scope === null ? rest.items.length : 0)) continue;
    add(protocol, of);
  }
  for (const protocol of scope === null ? OTHER_PROTOCOLS : []) {
    const of = part(protocolChain(name, protocol), (entry) => protocolItem(entry, protocol));
    if (of.items.length === rest.items.length) continue;
    add(protocol, of);
  }
  if (scope !== null) return joined(name, rules, found);
  const { chains, maps } = build({ name, protocol: null }, rest);
  const [entry, ...others] = chains;
  return joined(name, [...rules, ...(entry?.rules ?? [])], [...found, { chains: others, maps }]);
}

/** The protocol if it has ports, else null. */
export function withPorts(protocol: L4Protocol | null): PortProtocol | null {
  return PORT_PROTOCOLS.find((known) => known === protocol) ?? null;
}

/** The part of an index for one protocol. */
export interface BuiltPart {
  readonly index: string;
  /** Name of the chain that receives the protocol's packets. */
  readonly name: string;
  /** Null: all protocols without a part of their own. */
  readonly protocol: L4Protocol | null;
  readonly items: readonly MatchEntry[];
  readonly plan: Plan;
  readonly dispatched: Dispatched;
}

/** The rules that can match packets of one protocol, and the result built for them. */
interface Part {
  /** The item of each entry for the protocol. */
  readonly of: IncrementalMap<IndexRule, MatchEntry | null>;
  readonly chains: FixedChains;
  readonly cache: PlanCache;
  readonly items: readonly MatchEntry[];
  built: (Dispatched & Planned) | null;
  /** The plan of earlier items with these in their place. */
  replaced: Planned | null;
}

interface Planned {
  readonly plan: Plan;
  readonly needsMembers: boolean;
  readonly levels: number;
}

/**
 * The changed items, each with the one it replaces; null if another plan may be better for the new
 * ones.
 */
function otherItems(
  before: readonly MatchEntry[],
  now: readonly MatchEntry[],
  needsMembers: boolean,
): [MatchEntry, MatchEntry][] | null {
  if (before.length !== now.length) return null;
  const { gone, added } = unequalElements(before, now);
  const pairs: [MatchEntry, MatchEntry][] = [];
  for (const [i, was] of gone.entries()) {
    const is = added[i];
    if (is === undefined || !isAlike(was, is, needsMembers)) return null;
    pairs.push([was, is]);
  }
  return pairs;
}

export function isItem(item: MatchEntry | null): item is MatchEntry {
  return item !== null;
}

/** Compares everything that a plan depends on. */
function isAlike(a: MatchEntry, b: MatchEntry, needsMembers: boolean): boolean {
  return (
    a.id === b.id &&
    a.final === b.final &&
    a.peers?.key === b.peers?.key &&
    (!needsMembers || a.peers?.members === b.peers?.members) &&
    sameRanges(a.ranges, b.ranges) &&
    sameRanges(a.sources, b.sources)
  );
}

function sameRanges(a: MatchEntry['ranges'], b: MatchEntry['ranges']): boolean {
  if (a === null || b === null) return a === b;
  return a.length === b.length && a.every(([first, last], i) => first === b[i]?.[0] && last === b[i][1]);
}

function joined(name: string, rules: readonly NftRule[], parts: readonly Dispatched[]): Dispatched {
  return {
    chains: [plainChain(name, rules), ...parts.flatMap(({ chains }) => chains)],
    maps: parts.flatMap(({ maps }) => maps),
  };
}
