import type { Chain, NamedSet, NftRule, PortMap, Ruleset, Statement } from '../../agent/render/ruleset.ts';
import type { RuleSource } from '../../apis/compiled.ts';

/** Small rulesets written by hand, for tests of what walks, checks or loads a ruleset. */
export function ruleset(
  chains: readonly Chain[],
  { sets = [], maps = [] }: { sets?: readonly NamedSet[]; maps?: readonly PortMap[] } = {},
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
