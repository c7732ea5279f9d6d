import type { Family } from '../../apis/address.ts';
import { BASELINE_PRIORITY } from '../../apis/baseline.ts';
import type { AddressSet, CompiledRule, NodeState, RuleSource, ServiceSet } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { type Mapped, mapAlike } from './alike.ts';
import { failsafeRules, failsafeScope, isSkippable } from './failsafe.ts';
import type { Dispatched } from './index/build.ts';
import { type Dispatch, Indexer, linearDispatch } from './index/dispatch.ts';
import type { Entry } from './index/item.ts';
import { peersOf } from './index/peers.ts';
import { LEVELS } from './index/plan.ts';
import { NamedList } from './namedlist.ts';
import { chainLines } from './nfttext.ts';
import { familiesOf, passChainName, REJECT_CHAIN, type RenderedRule, ruleChain } from './rulechain.ts';
import type { Chain, NamedSet, NftRule, Ruleset, VerdictMap } from './ruleset.ts';
import { BASE_CHAINS, baseChains, masqueradeChains, TRAFFICS, type Traffic, trafficOf } from './topology.ts';

import { UsedSets } from './usedsets.ts';

/** A rule that can't be said in nft. */
export class RenderError extends Error {
  override readonly name = 'RenderError';
  readonly source: RuleSource;

  constructor(source: RuleSource, cause: unknown) {
    super(`rule ${source.policy}/${source.rule}: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    });
    this.source = source;
  }
}

/**
 * Stage 5: the table for what a node must enforce. A pure function; equal states give equal bytes.
 * Cost: rules × log rules, plus the index (see dispatch.ts). An error names the rule it could not render.
 */
export function render(state: NodeState, config: Config): Ruleset {
  return renderer(config)(state);
}

/**
 * `render` for one state after another: gives the same, and takes over the chains of rules whose CompiledRule and AddressSet are the same objects.
 * @param canLog without it nothing in the table needs the kernel's NFLOG: rules write no records, DNS answers aren't copied; verdicts are the same
 */
export function renderer(
  config: Config,
  canLog = true,
  indexer = new Indexer(),
): (state: NodeState) => Ruleset {
  const sets = new UsedSets();
  const rulesOf = ruleRenderer(config, canLog, sets);
  let failsafe: readonly NamedSet[] = [];
  let last: Last = { chains: new NamedList([]), sets: new Map(), maps: new Map() };
  return (state) => {
    const shares = byTraffic(rulesOf(state));
    const rendered = TRAFFICS.map((traffic) =>
      renderTraffic(traffic, shares[traffic], { state, config, canLog, indexer }),
    );
    const ofIndexes = rendered.flatMap((one) => one.sets);
    sets.change(ofIndexes, failsafe);
    failsafe = ofIndexes;
    last = { ...join(rendered, config, last), sets: sets.sets() };
    return last;
  };
}

/** What was made the last time. */
interface Last extends Ruleset {
  readonly chains: NamedList<Chain>;
}

interface Means {
  readonly state: NodeState;
  readonly config: Config;
  readonly canLog: boolean;
  readonly indexer: Indexer;
}

/** Maps that hold what they held the last time are those of the last time. */
function join(
  rendered: readonly RenderedTraffic[],
  config: Config,
  last: Last,
): Pick<Last, 'chains' | 'maps'> {
  // Of the few that are made anew each time, the objects of the last time where they say the same.
  const before = (chain: Chain): Chain => {
    const there = chain.fixed ? undefined : last.chains.get(chain.name);
    return there !== undefined && chainLines(there).join('\n') === chainLines(chain).join('\n')
      ? there
      : chain;
  };
  const chains = [
    ...rendered.flatMap(({ base }) => base.map(before)),
    ...masqueradeChains(config).map(before),
    ...rendered.flatMap(({ index }) => index.map(before)),
    REJECT_CHAIN,
  ].concat(...rendered.map(({ rules }) => rules));
  return {
    chains: isSameList(chains, last.chains.items) ? last.chains : new NamedList(chains, last.chains),
    maps: byName(sortedLike(new Set(rendered.flatMap(({ maps }) => maps)), last.maps), last.maps),
  };
}

interface RenderedTraffic {
  /** The base chain, and what it calls before the index. */
  readonly base: readonly Chain[];
  readonly index: readonly Chain[];
  readonly rules: readonly Chain[];
  /** Those of the index; rules' are counted (usedsets.ts). */
  readonly sets: readonly NamedSet[];
  readonly maps: readonly VerdictMap[];
}

function renderTraffic(traffic: Traffic, share: Share, means: Means): RenderedTraffic {
  const { state, config, canLog } = means;
  const parts = indexParts(traffic, share);
  const levels = levelsOf(parts, traffic, config);
  const indexes = parts.map((part) => renderIndex(part, traffic, { ...means, levels }));
  const copyAnswers =
    canLog && config.names.learn && [...state.addressSets.values()].some(({ names }) => names.length > 0);
  return {
    base: baseChains(traffic, config, { indexes: parts.map(({ name }) => name), copyAnswers }),
    index: [...indexes.flatMap(({ chains }) => chains), ...passChain(traffic, share)],
    rules: share.chains,
    sets: indexes.flatMap((index) => index.sets),
    maps: indexes.flatMap(({ maps }) => maps),
  };
}

/** Rules in evaluation order, and of each its traits. */
interface Rules {
  readonly entries: readonly Entry[];
  readonly traits: readonly number[];
  /** Those that one of them has. */
  readonly any: number;
}

/** The rules of one traffic. */
interface Share extends Rules {
  /** Theirs, each followed by the one of its records. */
  readonly chains: readonly Chain[];
}

/** What of a rule decides about more than itself, as bits: of 10,000 rules numbers are looked at, not the objects. */
const TRAIT = {
  empty: 1,
  baseline: 2,
  passes: 4,
  skippable: 8,
  records: 16,
  egress: 32,
  nodeport: 64,
} as const;

function traitsOf({ rule }: Entry, { chain, record }: RenderedRule): number {
  const traffic = trafficOf(rule);
  return (
    // No rule in it: its peers are a list that resolves to nothing, for good.
    (chain.rules.length === 0 ? TRAIT.empty : 0) |
    (rule.tierPriority === BASELINE_PRIORITY ? TRAIT.baseline : 0) |
    (rule.action === 'Pass' && rule.mode === 'Enforce' ? TRAIT.passes : 0) |
    (isSkippable(rule) ? TRAIT.skippable : 0) |
    (record === null ? 0 : TRAIT.records) |
    (traffic === 'ingress' ? 0 : TRAIT[traffic])
  );
}

function trafficOfTraits(traits: number): Traffic {
  if (traits & TRAIT.nodeport) return 'nodeport';
  return traits & TRAIT.egress ? 'egress' : 'ingress';
}

function byTraffic({ entries, chains, records, traits }: AllRules): Readonly<Record<Traffic, Share>> {
  const empty = () => ({ entries: [] as Entry[], traits: [] as number[], any: 0, chains: [] as Chain[] });
  const shares = { ingress: empty(), egress: empty(), nodeport: empty() };
  for (let i = 0; i < traits.length; i++) {
    const own = traits[i] ?? 0;
    if (own & TRAIT.empty) continue;
    const share = shares[trafficOfTraits(own)];
    share.entries.push(entries[i] as Entry);
    share.traits.push(own);
    share.any |= own;
    share.chains.push(chains[i] as Chain);
    if (own & TRAIT.records) share.chains.push(records[i] as Chain);
  }
  return shares;
}

/** Those with the trait, or those without it. */
function select({ entries, traits, any }: Rules, trait: number, wanted: boolean): Rules {
  if ((any & trait) === 0) return wanted ? { entries: [], traits: [], any: 0 } : { entries, traits, any };
  const isWanted = (_: unknown, i: number): boolean => (((traits[i] ?? 0) & trait) !== 0) === wanted;
  const kept = traits.filter(isWanted);
  return { entries: entries.filter(isWanted), traits: kept, any: kept.reduce((all, own) => all | own, 0) };
}

interface IndexPart extends Rules {
  readonly name: string;
}

/**
 * One index for all rules; where some Pass, those of the baseline tier have an index of their own, which comes next and which they
 * go on with. Traffic without rules of its own needs none, save that an index of the Node's is always there, empty.
 */
function indexParts(traffic: Traffic, share: Rules): IndexPart[] {
  const { index: name } = BASE_CHAINS[traffic];
  if (traffic === 'nodeport' && share.entries.length === 0) return [];
  if (!(share.any & TRAIT.baseline) || !(share.any & TRAIT.passes)) return [{ ...share, name }];
  return [
    { ...select(share, TRAIT.baseline, false), name },
    { ...select(share, TRAIT.baseline, true), name: baselineName(traffic) },
  ];
}

function baselineName(traffic: Traffic): string {
  return `${BASE_CHAINS[traffic].index}-baseline`;
}

/** It accepts at its end: what passed must not come back to the rules behind the one that passed it. */
function passChain(traffic: Traffic, { any }: Rules): Chain[] {
  if (!(any & TRAIT.passes)) return [];
  const rule = (statement: NftRule['statement']): NftRule => ({
    matches: [],
    counter: false,
    statement,
    comment: null,
  });
  const hasBaseline = (any & TRAIT.baseline) !== 0;
  const baseline = hasBaseline ? [rule({ kind: 'jump', chain: baselineName(traffic) })] : [];
  const rules = [...baseline, rule({ kind: 'accept' })];
  return [{ name: passChainName(traffic), base: null, fixed: false, rules, source: null, ruleId: null }];
}

/**
 * Chains that may call each other below the first of an index. Where two follow each other a packet that passes goes through both: the base chain, each
 * index's entry and protocol, perhaps its failsafe index, a rule and perhaps its record, and what passes are 8 to 14 of the 16 that the kernel allows.
 */
function levelsOf(parts: readonly IndexPart[], traffic: Traffic, config: Config): number {
  if (parts.length < 2) return LEVELS;
  const failsafes = parts.filter((part) => hasFailsafe(part, traffic, config)).length;
  const records = parts.some(({ any }) => any & TRAIT.records) ? 2 : 0;
  const around = 8 + (traffic === 'nodeport' ? 1 : 0) + failsafes + records;
  return Math.floor((MAX_DEPTH - around) / 2);
}

/** NFT_JUMP_STACK_SIZE of linux/netfilter/nf_tables.h: chains call each other so deep. */
const MAX_DEPTH = 16;

function hasFailsafe({ any }: Rules, traffic: Traffic, { failsafe }: Config): boolean {
  const list = traffic === 'nodeport' ? [] : failsafe[traffic];
  return list.length > 0 && (any & TRAIT.skippable) !== 0;
}

/** The index of some rules; in front of it a second one, without what the failsafe list skips, for that list's traffic. */
function renderIndex(
  part: IndexPart,
  traffic: Traffic,
  { state, config, indexer, levels }: Means & { readonly levels: number },
): Dispatched & { readonly sets: readonly NamedSet[] } {
  const { name, entries } = part;
  const dispatch: Dispatch = config.dispatch === 'linear' ? linearDispatch : indexer.dispatch;
  const address = BASE_CHAINS[traffic].direction === 'ingress' ? 'saddr' : 'daddr';
  const fields = { original: traffic === 'nodeport', address, levels } as const;
  const main = dispatch(name, entries, { ...fields, scope: null });
  if (traffic === 'nodeport' || !hasFailsafe(part, traffic, config)) return { ...main, sets: [] };
  const list = config.failsafe[traffic];
  const failsafeName = `${name}-failsafe`;
  const failsafe = failsafeRules(list, traffic, state, failsafeName);
  const { entries: kept } = select(part, TRAIT.skippable, false);
  const second = dispatch(failsafeName, kept, { ...fields, scope: failsafeScope(list) });
  return {
    chains: [...withRulesFirst(main, failsafe.rules), ...second.chains],
    maps: [...main.maps, ...second.maps],
    sets: failsafe.sets,
  };
}

/** The entry chain's own rules come after `rules`. */
function withRulesFirst({ chains }: Dispatched, rules: Chain['rules']): Chain[] {
  return chains.map((chain, i) => (i === 0 ? { ...chain, rules: [...rules, ...chain.rules] } : chain));
}

/** A rule's chains and sets, and what the index knows it by. */
interface IndexedRule {
  readonly set: AddressSet | null;
  readonly services: ServiceSet | null;
  readonly families: readonly Family[];
  readonly rendered: RenderedRule;
  readonly entry: Entry;
  readonly traits: number;
}

/** What a rule is rendered with besides itself. */
interface RuleContext {
  readonly families: readonly Family[];
  readonly sets: NodeState['addressSets'];
  readonly services: NodeState['serviceSets'];
}

/** Every rule of a state, in order; four lists of the same length. */
interface AllRules {
  readonly entries: readonly Entry[];
  readonly chains: readonly Chain[];
  readonly records: readonly (Chain | null)[];
  readonly traits: readonly number[];
}

/**
 * Every rule of a state, in order. A rule is rendered again where it, its AddressSet or its ServiceSet is another object than the last time; what comes out
 * alike is the same object again.
 */
function ruleRenderer(config: Config, canLog: boolean, sets: UsedSets): (state: NodeState) => AllRules {
  const known = new WeakMap<CompiledRule, IndexedRule>();
  let last: (Mapped<CompiledRule, IndexedRule> & RuleContext) | null = null;
  const entries = listAlike(({ entry }: IndexedRule) => entry);
  const chains = listAlike(({ rendered }: IndexedRule) => rendered.chain);
  const records = listAlike(({ rendered }: IndexedRule) => rendered.record);
  const traits = listAlike((one: IndexedRule) => one.traits);
  const ruleOf = (rule: CompiledRule, state: NodeState, families: readonly Family[]): IndexedRule => {
    try {
      const set = named(rule.addressSets, state.addressSets);
      const services = named(rule.serviceSets, state.serviceSets);
      const before = known.get(rule);
      if (before?.set === set && before.services === services && before.families === families) return before;
      const made = ruleChain(canLog ? rule : { ...rule, log: null }, { set, services, families, config });
      const same = before?.rendered.chain.name === made.chain.name;
      const rendered = same ? { ...before.rendered, sets: made.sets } : made;
      const entry = { rule, chain: rendered.chain.name, peers: peersOf(rule, state) };
      const found = { set, services, families, rendered, entry, traits: traitsOf(entry, rendered) };
      known.set(rule, found);
      return found;
    } catch (error) {
      throw new RenderError(rule.source, error);
    }
  };
  return (state) => {
    const families = familiesOf(state);
    const isStale = ({ set, services }: IndexedRule): boolean =>
      (set !== null && state.addressSets.get(set.id) !== set) ||
      (services !== null && state.serviceSets.get(services.id) !== services);
    const kept = last?.families === families ? last : null;
    const othersMayBe =
      kept === null || kept.sets !== state.addressSets || kept.services !== state.serviceSets;
    const mapped = mapAlike(
      kept,
      state.rules,
      (rule) => ruleOf(rule, state, families),
      othersMayBe ? isStale : null,
    );
    const setsOf = (rules: readonly IndexedRule[]) => rules.flatMap((one) => one.rendered.sets);
    sets.change(setsOf(mapped.made), setsOf(kept === null ? (last?.to ?? []) : mapped.gone));
    last = { ...mapped, families, sets: state.addressSets, services: state.serviceSets };
    const { to } = mapped;
    return { entries: entries(to), chains: chains(to), records: records(to), traits: traits(to) };
  };
}

/** What `of` makes of each element of one list after another. */
function listAlike<T, U>(of: (element: T) => U): (now: readonly T[]) => readonly U[] {
  let last: Mapped<T, U> | null = null;
  return (now) => {
    last = mapAlike(last, now, of);
    return last.to;
  };
}

/** The set that a rule names; null where it names none. */
function named<T>([id]: readonly string[], sets: ReadonlyMap<string, T>): T | null {
  if (id === undefined) return null;
  const set = sets.get(id);
  if (set === undefined) throw new Error(`the state does not hold its set ${id}`);
  return set;
}

interface Named {
  readonly name: string;
}

function isSameList<T>(a: readonly T[], b: readonly T[]): boolean {
  return a.length === b.length && a.every((item, i) => item === b[i]);
}

/** The map of the last time where it holds the same, in the same order. */
function byName<T extends Named>(items: readonly T[], last: ReadonlyMap<string, T>): ReadonlyMap<string, T> {
  return isSameList(items, [...last.values()]) ? last : new Map(items.map((item) => [item.name, item]));
}

/** Sorted by name, which costs little where the names are those of the last time. */
function sortedLike<T extends Named>(items: ReadonlySet<T>, last: ReadonlyMap<string, T>): T[] {
  const named = new Map<string, T>();
  for (const item of items) named.set(item.name, item);
  if (named.size === last.size) {
    const found: T[] = [];
    for (const name of last.keys()) {
      const item = named.get(name);
      if (item === undefined) break;
      found.push(item);
    }
    if (found.length === named.size) return found;
  }
  return [...named.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}
