import { AUTHENTICATION_HEADER } from '../../../apis/ip-protocols.ts';
import { ALL_PORTS } from '../../../lib/net/interval.ts';
import { CHANGED_BY_NAT, type FailsafeProtocol, type FailsafeRules, inOneList } from '../failsafe.ts';
import { type IncrementalMap, mapIncrementally, unequalElements } from '../incremental-list.ts';
import { protocolChain } from '../nft-text.ts';
import {
  type Chain,
  type L4Protocol,
  type Match,
  type NftRule,
  type PortProtocol,
  plainChain,
  plainRule,
} from '../ruleset.ts';
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
    byProtocol(name, entries, scope, {
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
interface ByProtocol<P extends { readonly items: readonly MatchEntry[] }> {
  readonly part: (chain: string, toItem: (entry: IndexRule) => MatchEntry | null) => P;
  readonly build: (of: Pick<BuiltPart, 'name' | 'protocol'>, part: P) => Dispatched;
}

/**
 * Makes an index whose entry chain sends the packets of each protocol that rules name to a chain of
 * its own.
 */
export function byProtocol<P extends { readonly items: readonly MatchEntry[] }>(
  name: string,
  entries: readonly IndexRule[],
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
  const numbers = scope === null ? namedNumbers(entries) : [...scope.keys()].filter(isNumber);
  const addOther = (protocol: L4Protocol): void => {
    const of = part(protocolChain(name, protocol), (entry) => protocolItem(entry, protocol));
    if (of.items.length > rest.items.length) add(protocol, of);
  };
  // First: ip6tables-legacy knows such a packet of IPv6 by the protocol behind the header too.
  if (numbers.includes(AUTHENTICATION_HEADER)) addOther(AUTHENTICATION_HEADER);
  for (const protocol of PORT_PROTOCOLS) {
    const ports = scope === null ? [ALL_PORTS] : (scope.get(protocol) ?? []);
    const of = part(protocolChain(name, protocol), (entry) => portItem(entry, protocol, ports));
    if (of.items.length === (scope === null ? rest.items.length : 0)) continue;
    add(protocol, of);
  }
  for (const protocol of scope === null ? OTHER_PROTOCOLS : []) addOther(protocol);
  for (const protocol of numbers) if (protocol !== AUTHENTICATION_HEADER) addOther(protocol);
  // In a scope, every protocol with ports has its chain, or no rule.
  if (scope !== null && numbers.length === 0) return joined(name, rules, found);
  const { chains, maps } = build({ name, protocol: null }, rest);
  const [entry, ...others] = chains;
  return joined(name, [...rules, ...(entry?.rules ?? [])], [...found, { chains: others, maps }]);
}

/** The protocols that rules name by number, sorted. */
function namedNumbers(entries: readonly IndexRule[]): number[] {
  const found = new Set<number>();
  for (const { rule } of entries)
    for (const { protocol } of rule.services) if (typeof protocol === 'number') found.add(protocol);
  return [...found].sort((a, b) => a - b);
}

function isNumber(protocol: L4Protocol): protocol is number {
  return typeof protocol === 'number';
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

/** The rules that stand before those of an index, for the packets of each protocol. */
interface IndexFront {
  /** Exemptions. */
  readonly exempt: ReadonlyMap<L4Protocol, readonly NftRule[]>;
  readonly failsafe: ReadonlyMap<FailsafeProtocol, FailsafeRules>;
  /** Whether the failsafe rules may be in chains of their own, which takes FRONT_LEVELS. */
  readonly hasChains: boolean;
}

/** How many chains more may call each other. */
export const FRONT_LEVELS = 3;
/** Up to this many failsafe rules need no chain of their own. */
const SHORT = 3;

/**
 * The index `name` behind its front. What is for one protocol is in the chain that receives the
 * packets of this protocol, so that no other packet is compared with it; or, where the index has no
 * such chain, in the entry chain, behind the rules that lead to such chains. Several failsafe rules
 * are in chains of their own, for packets to a port of the list and for those that NAT has changed.
 */
export function withFront(name: string, index: Dispatched, front: IndexFront): Dispatched {
  const [entry, ...others] = index.chains;
  if (entry === undefined) return index;
  const byName = new Map(others.map((chain) => [chain.name, [chain] as readonly Chain[]]));
  const ofEntry: NftRule[] = [];
  for (const protocol of new Set([...front.exempt.keys(), ...front.failsafe.keys()])) {
    const chain = byName.get(protocolChain(name, protocol))?.[0];
    const exempt = front.exempt.get(protocol) ?? [];
    const named = isNumber(protocol) ? protocol : withPorts(protocol);
    const failsafe = named === null ? undefined : front.failsafe.get(named);
    if (chain === undefined) ofEntry.push(...exempt, ...(failsafe === undefined ? [] : inOneList(failsafe)));
    else byName.set(chain.name, behind(chain, { exempt, failsafe, hasChains: front.hasChains }));
  }
  const isOther = entry.rules.findIndex(({ statement }) => statement.kind !== 'goto');
  const gotos = isOther === -1 ? entry.rules.length : isOther;
  const rules = [...entry.rules.slice(0, gotos), ...ofEntry, ...entry.rules.slice(gotos)];
  return { ...index, chains: [{ ...entry, rules }, ...[...byName.values()].flat()] };
}

interface ProtocolFront extends Pick<IndexFront, 'hasChains'> {
  readonly exempt: readonly NftRule[];
  readonly failsafe: FailsafeRules | undefined;
}

/** The chain that receives the packets of one protocol, behind their front; it comes first. */
function behind(chain: Chain, { exempt, failsafe, hasChains }: ProtocolFront): readonly Chain[] {
  if (failsafe === undefined || !hasChains || countOf(failsafe) <= SHORT) {
    const before = failsafe === undefined ? exempt : [...exempt, ...inOneList(failsafe)];
    return [{ ...chain, rules: [...before.map(withKnownProtocol), ...chain.rules] }];
  }
  const rest = { ...chain, name: `${chain.name}-rules` };
  const onRest = plainRule({ kind: 'goto', chain: rest.name });
  const natChain = `${chain.name}-to-failsafe-nat`;
  const answerChain = `${chain.name}-to-failsafe-reply`;
  const others = [
    ...(failsafe.nat.length === 0 ? [] : [plainRule({ kind: 'goto', chain: natChain }, CHANGED_BY_NAT)]),
    ...(failsafe.answers.length === 0
      ? []
      : [plainRule({ kind: 'goto', chain: answerChain }, failsafe.mayAnswer)]),
    onRest,
  ];
  const portsChain = `${chain.name}-to-failsafe`;
  const ports = failsafe.guards.map((guard) => plainRule({ kind: 'goto', chain: portsChain }, guard));
  // All by goto: a packet of the list must not come back to the rules that it skips.
  const chains: [name: string, rules: readonly NftRule[], last: readonly NftRule[]][] = [
    [portsChain, failsafe.ports, others],
    [natChain, failsafe.nat, [onRest]],
    [answerChain, failsafe.answers, [onRest]],
  ];
  return [
    { ...chain, rules: [...[...exempt, ...ports].map(withKnownProtocol), ...others] },
    ...chains.flatMap(([name, rules, last]) =>
      rules.length === 0 ? [] : [plainChain(name, [...rules.map(withKnownProtocol), ...last])],
    ),
    rest,
  ];
}

function countOf({ ports, nat, answers }: FailsafeRules): number {
  return ports.length + nat.length + answers.length;
}

function withKnownProtocol(rule: NftRule): NftRule {
  const known = (match: Match): Match =>
    match.match === 'port' ? { ...match, isProtocolKnown: true } : match;
  return { ...rule, matches: rule.matches.map(known) };
}
