import type { Chain, NamedSet, NftRule, Ruleset, Statement } from '../../agent/render/ruleset.ts';
import { type ChainVerdict, mapKeyLength, type VerdictMap } from '../../agent/render/verdict-map.ts';
import type { RuleSource } from '../../apis/compiled.ts';
import type { Family } from '../../lib/net/address.ts';

/** Small rulesets written by hand, for tests of what walks, checks or loads a ruleset. */
export function ruleset(
  chains: readonly Chain[],
  { sets = [], maps = [] }: { sets?: readonly NamedSet[]; maps?: readonly VerdictMap[] } = {},
): Ruleset {
  return {
    chains: new Map(chains.map((chain) => [chain.name, chain])),
    sets: new Map(sets.map((set) => [set.name, set])),
    maps: new Map(maps.map((map) => [map.name, map])),
  };
}

export function rule(statement: Statement, ...matches: NftRule['matches']): NftRule {
  return { matches, counter: false, statement, comment: null };
}

export function inputChain(...rules: readonly NftRule[]): Chain {
  const base = { type: 'filter', hook: 'input', priority: 0, policy: 'accept' } as const;
  return { name: 'input', base, fixed: false, rules, source: null, ruleId: null };
}

export function indexChain(name: string, ...rules: readonly NftRule[]): Chain {
  return { name, base: null, fixed: false, rules, source: null, ruleId: null };
}

export function ruleChain(name: string, ...rules: readonly NftRule[]): Chain {
  return { name, base: null, fixed: true, rules, source: source(name), ruleId: name };
}

export function source(rule: string): RuleSource {
  const direction = 'ingress';
  return { apiGroup: 'nodewall.io', policy: 'p', uid: '', generation: 0, direction, ruleIndex: 0, rule };
}

/** One element of a map by hand: its key, or its first and last. */
export type MapEntry = readonly [key: number | bigint | readonly [bigint, bigint], verdict: ChainVerdict];

/**
 * A verdict map with these elements as they stand, right or wrong: in this order, whatever they
 * are. By port where `family` is null; an interval map where one of them is a range.
 */
export function verdictMap(name: string, family: Family | null, entries: readonly MapEntry[]): VerdictMap {
  const interval = entries.some(([key]) => typeof key === 'object');
  const verdicts = [...new Map(entries.map(([, verdict]) => [JSON.stringify(verdict), verdict])).values()];
  const place = new Map(verdicts.map((verdict, i) => [JSON.stringify(verdict), i]));
  const keys = entries.flatMap(([key]) => {
    const [first, last] = typeof key === 'object' ? key : [BigInt(key), BigInt(key)];
    return interval ? [first, last] : [first];
  });
  const key = family === null ? 'port' : 'address';
  const digits = 2 * mapKeyLength({ key, family });
  return {
    name,
    key,
    family,
    interval,
    fixed: interval,
    keys: Buffer.from(keys.map((key) => key.toString(16).padStart(digits, '0')).join(''), 'hex'),
    targets: Uint32Array.from(entries, ([, verdict]) => place.get(JSON.stringify(verdict)) ?? 0),
    verdicts,
  };
}
