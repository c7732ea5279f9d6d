import { BASELINE_PRIORITY } from '../../apis/baseline.ts';
import type { AddressSet, CompiledRule, NodeState, RuleSource, ServiceSet } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { type Dispatched, type Entry, indexedDispatch, linearDispatch } from './dispatch.ts';
import { failsafeRules, failsafeScope, isSkippable } from './failsafe.ts';
import { passChainName, REJECT_CHAIN, type RenderedRule, ruleChain } from './rulechain.ts';
import type { Chain, NamedSet, NftRule, PortMap, Ruleset } from './ruleset.ts';
import { BASE_CHAINS, baseChains, masqueradeChains, TRAFFICS, type Traffic, trafficOf } from './topology.ts';

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
export function renderer(config: Config, canLog = true): (state: NodeState) => Ruleset {
  const chainOf = ruleRenderer(config, canLog);
  return (state) => renderWith(state, { config, canLog, chainOf });
}

interface Means {
  readonly config: Config;
  readonly canLog: boolean;
  readonly chainOf: (rule: CompiledRule, state: NodeState) => RenderedRule;
}

function renderWith(state: NodeState, means: Means): Ruleset {
  const rendered = TRAFFICS.map((traffic) => renderTraffic(traffic, state, means));
  const chains = [
    ...rendered.flatMap(({ base }) => base),
    ...masqueradeChains(means.config),
    ...rendered.flatMap(({ index }) => index),
    REJECT_CHAIN,
    ...rendered.flatMap(({ rules }) => rules),
  ];
  return {
    chains: new Map(chains.map((chain) => [chain.name, chain])),
    sets: sortedByName(rendered.flatMap(({ sets }) => sets)),
    maps: sortedByName(rendered.flatMap(({ maps }) => maps)),
  };
}

interface RenderedTraffic {
  /** The base chain, and what it calls before the index. */
  readonly base: readonly Chain[];
  readonly index: readonly Chain[];
  readonly rules: readonly Chain[];
  readonly sets: readonly NamedSet[];
  readonly maps: readonly PortMap[];
}

function renderTraffic(
  traffic: Traffic,
  state: NodeState,
  { config, canLog, chainOf }: Means,
): RenderedTraffic {
  const entries: Entry[] = [];
  const rules: Chain[] = [];
  const sets: NamedSet[] = [];
  for (const rule of state.rules) {
    if (trafficOf(rule) !== traffic) continue;
    const rendered = chainOf(rule, state);
    // No rule in it: its peers are a list that resolves to nothing, for good.
    if (rendered.chain.rules.length === 0) continue;
    entries.push({ rule, chain: rendered.chain.name });
    rules.push(rendered.chain, ...(rendered.record === null ? [] : [rendered.record]));
    sets.push(...rendered.sets);
  }
  const parts = indexParts(traffic, entries);
  const indexes = parts.map(({ name, entries: part }) => renderIndex(name, part, { traffic, state, config }));
  const copyAnswers =
    canLog && config.names.learn && [...state.addressSets.values()].some(({ names }) => names.length > 0);
  return {
    base: baseChains(traffic, config, { indexes: parts.map(({ name }) => name), copyAnswers }),
    index: [...indexes.flatMap(({ chains }) => chains), ...passChain(traffic, entries)],
    rules,
    sets: [...sets, ...indexes.flatMap((index) => index.sets)],
    maps: indexes.flatMap(({ maps }) => maps),
  };
}

const isBaseline = ({ rule }: Entry): boolean => rule.tierPriority === BASELINE_PRIORITY;
const passes = ({ rule }: Entry): boolean => rule.action === 'Pass' && rule.mode === 'Enforce';

/**
 * One index for all rules; where some Pass, those of the baseline tier have an index of their own, which comes next and which they
 * go on with. Traffic without rules of its own needs none, save that an index of the Node's is always there, empty.
 */
function indexParts(
  traffic: Traffic,
  entries: readonly Entry[],
): { name: string; entries: readonly Entry[] }[] {
  const { index: name } = BASE_CHAINS[traffic];
  if (traffic === 'nodeport' && entries.length === 0) return [];
  const baseline = entries.filter(isBaseline);
  if (baseline.length === 0 || !entries.some(passes)) return [{ name, entries }];
  return [
    { name, entries: entries.filter((entry) => !isBaseline(entry)) },
    { name: baselineName(traffic), entries: baseline },
  ];
}

function baselineName(traffic: Traffic): string {
  return `${BASE_CHAINS[traffic].index}-baseline`;
}

/** It accepts at its end: what passed must not come back to the rules behind the one that passed it. */
function passChain(traffic: Traffic, entries: readonly Entry[]): Chain[] {
  if (!entries.some(passes)) return [];
  const rule = (statement: NftRule['statement']): NftRule => ({
    matches: [],
    counter: false,
    statement,
    comment: null,
  });
  const baseline = entries.some(isBaseline) ? [rule({ kind: 'jump', chain: baselineName(traffic) })] : [];
  const rules = [...baseline, rule({ kind: 'accept' })];
  return [{ name: passChainName(traffic), base: null, fixed: false, rules, source: null, ruleId: null }];
}

/** The index of some rules; in front of it a second one, without what the failsafe list skips, for that list's traffic. */
function renderIndex(
  name: string,
  entries: readonly Entry[],
  {
    traffic,
    state,
    config,
  }: { readonly traffic: Traffic; readonly state: NodeState; readonly config: Config },
): Dispatched & { readonly sets: readonly NamedSet[] } {
  const dispatch = config.dispatch === 'linear' ? linearDispatch : indexedDispatch;
  const main = dispatch(name, entries, { original: traffic === 'nodeport' });
  const list = traffic === 'nodeport' ? [] : config.failsafe[traffic];
  if (traffic === 'nodeport' || list.length === 0 || !entries.some(({ rule }) => isSkippable(rule))) {
    return { ...main, sets: [] };
  }
  const failsafeName = `${name}-failsafe`;
  const failsafe = failsafeRules(list, traffic, state, failsafeName);
  const kept = entries.filter(({ rule }) => !isSkippable(rule));
  const second = dispatch(failsafeName, kept, { scope: failsafeScope(list) });
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

function ruleRenderer(config: Config, canLog: boolean): Means['chainOf'] {
  const known = new WeakMap<
    CompiledRule,
    { set: AddressSet | null; services: ServiceSet | null; rendered: RenderedRule }
  >();
  return (rule, state) => {
    try {
      const set = named(rule.addressSets, state.addressSets);
      const services = named(rule.serviceSets, state.serviceSets);
      const before = known.get(rule);
      if (before?.set === set && before.services === services) return before.rendered;
      const rendered = ruleChain(canLog ? rule : { ...rule, log: null }, { set, services, config });
      known.set(rule, { set, services, rendered });
      return rendered;
    } catch (error) {
      throw new RenderError(rule.source, error);
    }
  };
}

/** The set that a rule names; null where it names none. */
function named<T>([id]: readonly string[], sets: ReadonlyMap<string, T>): T | null {
  if (id === undefined) return null;
  const set = sets.get(id);
  if (set === undefined) throw new Error(`the state does not hold its set ${id}`);
  return set;
}

function sortedByName<T extends { readonly name: string }>(items: readonly T[]): Map<string, T> {
  return new Map([...items].sort((a, b) => (a.name < b.name ? -1 : 1)).map((item) => [item.name, item]));
}
