import { isDeepStrictEqual } from 'node:util';
import { unequalElements } from '../../render/incremental-list.ts';
import { type Chain, type NftRule, type Ruleset, targets, withTargets } from '../../render/ruleset.ts';
import type { VerdictMap } from '../../render/verdict-map.ts';
import { encodeRule } from '../netlink/encode.ts';
import type { Command } from './command.ts';
import {
  type CurrentChain,
  type CurrentMap,
  isKnownMap,
  sameHook,
  sameKeys,
  samePolicy,
} from './current-state.ts';
import type { Difference } from './difference.ts';

interface Differences {
  readonly chains: Difference<CurrentChain, Chain>;
  readonly maps: Difference<CurrentMap, VerdictMap>;
}

interface CurrentChains {
  readonly chains: ReadonlyMap<string, CurrentChain>;
  readonly handles: ReadonlyMap<string, number>;
}

/**
 * The commands of one transaction that rewrites chains in place, if chains are replaced by others
 * and everything that leads to them stays: the old chains get the new rules and the new names. A
 * packet traverses the rules of one generation, so it meets either the old rules or the new ones,
 * and no key of a map is touched.
 *
 * Null if that is impossible: each removed chain must correspond to exactly one added chain, in
 * every rule and map that leads to it; its handle must be known; and rules to be written must have
 * no range sets of their own, because lookups find those only a moment after the transaction.
 */
export function rewrite(current: CurrentChains, { chains, maps }: Differences): Command[] | null {
  const { added, changed, gone } = chains;
  if (gone.length === 0 || gone.length !== added.length) return null;
  if (maps.added.length > 0 || maps.gone.length > 0) return null;
  const pairs = new Pairs(gone, added);
  const leadAlike =
    maps.changed.every((change) => mapLeadsAlike(change.current, change.desired, pairs)) &&
    changed.every(
      (change) =>
        sameHook(change.current.base, change.desired.base) &&
        samePolicy(change.current.base, change.desired.base) &&
        change.current.rules !== null &&
        sameRules(change.current.rules, change.desired.rules, pairs),
    );
  if (!leadAlike || !pairs.follow(current.chains)) return null;
  const commands: Command[] = [];
  for (const [name, chain] of pairs) {
    const handle = current.handles.get(name);
    const before = current.chains.get(name)?.rules ?? null;
    if (handle === undefined || before === null) return null;
    if (!sameRules(before, chain.rules, pairs)) {
      if (chain.rules.some(hasRanges)) return null;
      commands.push({ kind: 'flushChain', name, counted: handle });
      for (const rule of chain.rules) {
        commands.push({
          kind: 'addRule',
          chain: name,
          rule: pairs.withOldTarget(rule),
          source: chain.source,
        });
      }
    }
    commands.push({ kind: 'renameChain', name, handle, to: chain.name });
  }
  return commands;
}

/** Pairs of a removed chain and the added chain that replaces it, by name. */
class Pairs {
  readonly #gone: ReadonlySet<string>;
  readonly #added: ReadonlyMap<string, Chain>;
  readonly #now = new Map<string, Chain>();
  /** New name to old name. */
  readonly #before = new Map<string, string>();

  constructor(gone: readonly string[], added: readonly Chain[]) {
    this.#gone = new Set(gone);
    this.#added = new Map(added.map((chain) => [chain.name, chain]));
  }

  [Symbol.iterator](): Iterator<[string, Chain]> {
    return this.#now.entries();
  }

  /**
   * Whether a verdict to `old` may become a verdict to `now`: both are the same name, or a pair.
   * Makes them a pair if both are still free.
   */
  match(old: string, now: string): boolean {
    if (old === now) return true;
    const chain = this.#added.get(now);
    const known = this.#before.get(now);
    if (known !== undefined || this.#now.has(old)) return known === old;
    if (chain === undefined || chain.base !== null || !this.#gone.has(old)) return false;
    this.#now.set(old, chain);
    this.#before.set(now, old);
    return true;
  }

  /**
   * Follows the jumps of the pairs to further pairs; false if a target doesn't match or a removed
   * chain ends up without a pair.
   */
  follow(current: ReadonlyMap<string, CurrentChain>): boolean {
    for (const [name, chain] of this.#now) {
      const before = current.get(name)?.rules ?? [];
      for (const [i, { statement }] of chain.rules.entries()) {
        const [old, now] = [before[i] && targetOf(before[i].statement), targetOf(statement)];
        if (old && now && !this.match(old, now)) return false;
      }
    }
    return this.#now.size === this.#gone.size;
  }

  /** The kernel renames at the commit: until then a chain has its old name. */
  withOldTarget(rule: NftRule): NftRule {
    if (!targets(rule.statement).some((name) => this.#before.has(name))) return rule;
    const old = (name: string): string => this.#before.get(name) ?? name;
    return { ...rule, statement: withTargets(rule.statement, old) };
  }
}

function targetOf(statement: NftRule['statement']): string | null {
  return statement.kind === 'jump' || statement.kind === 'goto' ? statement.chain : null;
}

/** Whether equal keys lead to the same chains, or to the chains that replace them. */
function mapLeadsAlike(current: CurrentMap, map: VerdictMap, pairs: Pairs): boolean {
  if (isKnownMap(current, map)) return true;
  const { keys, verdicts } = current;
  if (!sameKeys(current, map) || map.interval || current.interval || keys === null) return false;
  if (keys !== map.keys && Buffer.compare(keys, map.keys) !== 0) return false;
  if (current.targets !== map.targets && !current.targets.every((target, i) => target === map.targets[i]))
    return false;
  if (verdicts.length !== map.verdicts.length) return false;
  const { gone, added } = unequalElements(verdicts, map.verdicts);
  return gone.every((verdict, i) => {
    const now = added[i];
    return now !== undefined && verdict.kind === now.kind && pairs.match(verdict.chain, now.chain);
  });
}

/** Whether the rules are equal, if replaced chains count as equal. */
function sameRules(before: readonly NftRule[], now: readonly NftRule[], pairs: Pairs): boolean {
  return (
    before.length === now.length &&
    before.every((rule, i) => {
      const other = now[i];
      if (rule === other) return true;
      const [old, target] = [
        targetOf(rule.statement),
        other === undefined ? null : targetOf(other.statement),
      ];
      if (old === null || target === null) return isDeepStrictEqual(rule, other);
      if (!pairs.match(old, target)) return false;
      return isDeepStrictEqual({ ...rule, statement: { ...rule.statement, chain: target } }, other);
    })
  );
}

const NO_IDS = { next: () => 1, of: () => undefined };

/** Whether the rule has ranges in an anonymous set of its own. */
function hasRanges(rule: NftRule): boolean {
  return encodeRule(rule, NO_IDS).sets.some(({ elements }) => elements.shape !== 'keys');
}

/**
 * The new chains whose rules are added in the swap: base chains, and those that only rules lead to
 * which the swap adds as well. The others, to which a key or a fixed chain leads, must be complete
 * before: a packet in the rules of before looks up keys as they are at that moment.
 */
export function filledLate(added: readonly Chain[], { chains, maps }: Ruleset): ReadonlySet<string> {
  const late = new Set(added.filter(({ fixed }) => !fixed).map(({ name }) => name));
  if (late.size === 0) return late;
  const early: string[] = [];
  const leadsTo = (name: string): void => {
    if (late.delete(name)) early.push(name);
  };
  for (const { verdicts } of maps.values()) for (const { chain } of verdicts) leadsTo(chain);
  for (const { fixed, rules } of chains.values())
    if (fixed) for (const { statement } of rules) for (const name of targets(statement)) leadsTo(name);
  for (const name of early)
    for (const { statement } of chains.get(name)?.rules ?? [])
      for (const next of targets(statement)) leadsTo(next);
  return late;
}
