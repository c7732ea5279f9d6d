import type { AddressSet, CompiledRule, NodeState, RuleSource, ServiceSet } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { resolvedPeers } from '../../apis/resolved-peers.ts';
import type { Family } from '../../lib/net/address.ts';
import { changedIds } from '../../lib/sharing/changed-map.ts';
import { errorMessage } from '../../lib/sharing/error.ts';
import { sameItems } from '../../lib/sharing/list-change.ts';
import { memo } from '../../lib/sharing/memo.ts';
import { type IncrementalMap, mapIncrementally } from './incremental-list.ts';
import { type IndexRule, peersOf, servicePeers } from './index/match-entry.ts';
import { familiesOf, type RenderedRule, ruleChain } from './rule-chain.ts';
import type { SetMatches } from './set-matches.ts';
import { type AllRules, traitsOf } from './traits.ts';
import type { UsedSets } from './used-sets.ts';

/** A rule that can't be expressed in nft. */
export class RenderError extends Error {
  override readonly name = 'RenderError';
  readonly source: RuleSource;

  constructor(source: RuleSource, cause: unknown) {
    super(`rule ${source.policy}/${source.rule}: ${errorMessage(cause)}`, {
      cause,
    });
    this.source = source;
  }
}

/** The chains and sets of a rule, and its entry for the index. */
interface IndexedRule {
  /** The sets that the rule names. */
  readonly sets: readonly (AddressSet | ServiceSet)[];
  readonly families: readonly Family[];
  readonly rendered: RenderedRule;
  readonly entry: IndexRule;
  readonly traits: number;
}

/** The inputs for rendering a rule, besides the rule itself. */
interface RuleContext {
  readonly families: readonly Family[];
  readonly sets: NodeState['addressSets'];
  readonly services: NodeState['serviceSets'];
}

/**
 * Renders all rules of a state, in order. A rule is rendered again if it, its AddressSet or its
 * ServiceSet is another object than before; if the result is equal, the previous object is reused.
 * Throws RenderError.
 */
export function ruleRenderer(
  config: Config,
  canLog: boolean,
  { sets, setMatches: matches }: { readonly sets: UsedSets; readonly setMatches: SetMatches },
): (state: NodeState) => AllRules {
  const known = new WeakMap<CompiledRule, IndexedRule>();
  const peersOfServices = memo(servicePeers);
  let last: (IncrementalMap<CompiledRule, IndexedRule> & RuleContext) | null = null;
  const entries = incrementalList(({ entry }: IndexedRule) => entry);
  const chains = incrementalList(({ rendered }: IndexedRule) => rendered.chain);
  const records = incrementalList(({ rendered }: IndexedRule) => rendered.record);
  const traits = incrementalList((one: IndexedRule) => one.traits);
  const ruleOf = (rule: CompiledRule, state: NodeState, families: readonly Family[]): IndexedRule => {
    try {
      const peers = resolvedPeers(rule, state, config);
      const own = peers.flatMap((peer) => ('set' in peer ? peer.set : []));
      const before = known.get(rule);
      if (before?.families === families && sameItems(before.sets, own)) return before;
      const parts = { peers, families, config, matches };
      const made = ruleChain(canLog ? rule : { ...rule, log: null }, parts);
      const same = before?.rendered.chain.name === made.chain.name;
      const rendered = same ? { ...before.rendered, sets: made.sets } : made;
      const entry = { rule, chain: rendered.chain.name, peers: peersOf(peers, peersOfServices) };
      const found = { sets: own, families, rendered, entry, traits: traitsOf(entry, rendered, peers) };
      known.set(rule, found);
      return found;
    } catch (error) {
      throw new RenderError(rule.source, error);
    }
  };
  return (state) => {
    const families = familiesOf(state);
    const kept = last?.families === families ? last : null;
    const others = new Set<string>();
    if (kept !== null) {
      for (const id of changedIds(kept.sets, state.addressSets)) others.add(id);
      for (const id of changedIds(kept.services, state.serviceSets)) others.add(id);
    }
    const isStale = (one: IndexedRule): boolean => one.sets.some(({ id }) => others.has(id));
    const mapped = mapIncrementally(
      kept,
      state.rules,
      (rule) => ruleOf(rule, state, families),
      others.size > 0 ? isStale : null,
    );
    const rendered = (rules: readonly IndexedRule[]) => rules.flatMap((one) => one.rendered.sets);
    sets.change(rendered(mapped.made), rendered(kept === null ? (last?.to ?? []) : mapped.gone));
    last = { ...mapped, families, sets: state.addressSets, services: state.serviceSets };
    const { to } = mapped;
    return { entries: entries(to), chains: chains(to), records: records(to), traits: traits(to) };
  };
}

/** Maps one list after another with `of`, reusing results. */
function incrementalList<T, U>(of: (element: T) => U): (now: readonly T[]) => readonly U[] {
  let last: IncrementalMap<T, U> | null = null;
  return (now) => {
    last = mapIncrementally(last, now, of);
    return last.to;
  };
}
