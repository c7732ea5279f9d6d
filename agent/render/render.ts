import type { AddressSet, CompiledRule, NodeState, RuleSource } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { Direction } from '../../apis/objects.ts';
import { type Dispatched, type Entry, indexedDispatch, linearDispatch } from './dispatch.ts';
import { failsafeRules, failsafeScope, isSkippable } from './failsafe.ts';
import { REJECT_CHAIN, ruleChain } from './rulechain.ts';
import type { Chain, NamedSet, PortMap, Ruleset } from './ruleset.ts';
import { BASE_CHAINS, baseChain } from './topology.ts';

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

/** `render` for one state after another: gives the same, and takes over the chains of rules whose CompiledRule and AddressSet are the same objects. */
export function renderer(config: Config): (state: NodeState) => Ruleset {
  const chainOf = ruleRenderer();
  return (state) => renderWith(state, { config, chainOf });
}

interface Means {
  readonly config: Config;
  readonly chainOf: (rule: CompiledRule, state: NodeState) => RenderedRule;
}

function renderWith(state: NodeState, means: Means): Ruleset {
  const rendered = (['ingress', 'egress'] as const).map((direction) =>
    renderDirection(direction, state, means),
  );
  const chains = [
    ...rendered.map(({ base }) => base),
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

interface RenderedDirection {
  readonly base: Chain;
  readonly index: readonly Chain[];
  readonly rules: readonly Chain[];
  readonly sets: readonly NamedSet[];
  readonly maps: readonly PortMap[];
}

function renderDirection(
  direction: Direction,
  state: NodeState,
  { config, chainOf }: Means,
): RenderedDirection {
  const entries: Entry[] = [];
  const rules: Chain[] = [];
  const sets: NamedSet[] = [];
  for (const rule of state.rules) {
    if (rule.source.direction !== direction) continue;
    const rendered = chainOf(rule, state);
    // No rule in it: its peers are a list that resolves to nothing, for good.
    if (rendered.chain.rules.length === 0) continue;
    entries.push({ rule, chain: rendered.chain.name });
    rules.push(rendered.chain);
    sets.push(...rendered.sets);
  }
  const { index: name } = BASE_CHAINS[direction];
  const dispatch = config.dispatch === 'linear' ? linearDispatch : indexedDispatch;
  const main = dispatch(name, entries);
  const list = config.failsafe[direction];
  if (list.length === 0 || !entries.some(({ rule }) => isSkippable(rule))) {
    return { base: baseChain(direction, config), index: main.chains, rules, sets, maps: main.maps };
  }
  const failsafeName = `${name}-failsafe`;
  const failsafe = failsafeRules(list, direction, state, failsafeName);
  const kept = entries.filter(({ rule }) => !isSkippable(rule));
  const second = dispatch(failsafeName, kept, failsafeScope(list));
  return {
    base: baseChain(direction, config),
    index: [...withRulesFirst(main, failsafe.rules), ...second.chains],
    rules,
    sets: [...sets, ...failsafe.sets],
    maps: [...main.maps, ...second.maps],
  };
}

/** The entry chain's own rules come after `rules`. */
function withRulesFirst({ chains }: Dispatched, rules: Chain['rules']): Chain[] {
  return chains.map((chain, i) => (i === 0 ? { ...chain, rules: [...rules, ...chain.rules] } : chain));
}

type RenderedRule = ReturnType<typeof ruleChain>;

function ruleRenderer(): Means['chainOf'] {
  const known = new WeakMap<CompiledRule, { set: AddressSet | null; rendered: RenderedRule }>();
  return (rule, state) => {
    const [id] = rule.addressSets;
    const set = id === undefined ? null : state.addressSets.get(id);
    const before = known.get(rule);
    if (before !== undefined && before.set === set) return before.rendered;
    try {
      if (set === undefined) throw new Error(`no AddressSet ${id} in the state of node ${state.node}`);
      const rendered = ruleChain(rule, set);
      known.set(rule, { set, rendered });
      return rendered;
    } catch (error) {
      throw new RenderError(rule.source, error);
    }
  };
}

function sortedByName<T extends { readonly name: string }>(items: readonly T[]): Map<string, T> {
  return new Map([...items].sort((a, b) => (a.name < b.name ? -1 : 1)).map((item) => [item.name, item]));
}
