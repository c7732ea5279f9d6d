import type { Chain, Match, NftRule, Statement } from './ruleset.ts';

/** A rule that neither counts nor has a comment. */
export function plainRule(statement: Statement, ...matches: readonly Match[]): NftRule {
  return { matches, counter: false, statement, comment: null };
}

/** A chain that belongs to no policy rule, changed in place. */
export function plainChain(name: string, rules: readonly NftRule[]): Chain {
  return { name, base: null, fixed: false, rules, source: null, ruleId: null };
}

export function fixedChain(name: string, rules: readonly NftRule[]): Chain {
  return { ...plainChain(name, rules), fixed: true };
}
