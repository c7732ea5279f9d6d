import type { RuleSource } from '../../../apis/compiled.ts';
import { type Chain, isRecordChain, type NftRule, type Statement } from '../ruleset.ts';
import { RETURN, type RuleContext, type RuleTarget, ruleTexts, targetText } from './rule-text.ts';
import type { CountPurpose, IptablesRule } from './tables.ts';

/**
 * How nft's verdicts are translated. In `host` chains an Allow is final: ACCEPT. NodePort traffic
 * is evaluated in FORWARD too, where other programs (pods' network policies) must still evaluate
 * it: there an Allow only leaves the list of NodePort rules: RETURN.
 */
export type TranslatedTraffic = 'host' | 'nodeport';

/** The iptables rules for one nft rule in one family. */
export interface TranslatedRule {
  readonly rules: readonly IptablesRule[];
  /** The chain of the Ruleset that they lead to; null if they lead to none. */
  readonly to: string | null;
  /**
   * The rules to use instead if that chain is empty: a goto becomes a return, a jump is left out.
   */
  readonly otherwise: () => readonly IptablesRule[];
}

export interface TranslationContext extends RuleContext {
  readonly traffic: TranslatedTraffic;
  /** The name in iptables of a chain of the Ruleset. */
  readonly chainName: (name: string) => string;
}

/** @param source the policy rule that the chain implements */
export function translateChain(
  chain: Chain,
  source: RuleSource | null,
  context: TranslationContext,
): TranslatedRule[] {
  const { rules, ruleId } = chain;
  const kind = isRecordChain(chain) ? 'record' : 'matched';
  return rules.flatMap((rule) => {
    const counts = rule.counter && ruleId !== null ? ({ ruleId, kind } as const) : null;
    return translateRule(rule, { counts, source }, context);
  });
}

export interface Origin {
  readonly counts: CountPurpose | null;
  readonly source: RuleSource | null;
}

export const NO_ORIGIN: Origin = { counts: null, source: null };

export function translateRule(rule: NftRule, origin: Origin, context: TranslationContext): TranslatedRule[] {
  const { statement } = rule;
  const rules = withTarget(rule, target(statement, context), origin, context);
  if (rules.length === 0) return [];
  switch (statement.kind) {
    case 'jump':
      return [{ rules, to: statement.chain, otherwise: () => [] }];
    case 'goto':
      return [{ rules, to: statement.chain, otherwise: () => withTarget(rule, RETURN, origin, context) }];
    default:
      return [{ rules, to: null, otherwise: () => [] }];
  }
}

function target(statement: Statement, { traffic, family, chainName }: TranslationContext): RuleTarget {
  switch (statement.kind) {
    case 'jump':
      return `-j ${chainName(statement.chain)}`;
    case 'goto':
      return `-g ${chainName(statement.chain)}`;
    case 'accept':
      return traffic === 'nodeport' ? RETURN : targetText(statement, family);
    default:
      return targetText(statement, family);
  }
}

/** The rules for this nft rule, with another target. */
export function withTarget(
  { matches, comment }: Pick<NftRule, 'matches' | 'comment'>,
  to: RuleTarget,
  { counts, source }: Origin,
  context: RuleContext,
): IptablesRule[] {
  return ruleTexts(matches, { target: to, comment }, context).map((text) => ({ text, counts, source }));
}

/** The end of a chain returns by itself, but a rule that counts stays. */
export function withoutLastReturns(rules: readonly IptablesRule[]): readonly IptablesRule[] {
  const last = rules.findLastIndex(({ text, counts }) => counts !== null || !text.endsWith(RETURN));
  return rules.slice(0, last + 1);
}

/** A rule that belongs to no policy rule. */
export function ruleWithoutOrigin(text: string): IptablesRule {
  return { text, ...NO_ORIGIN };
}
