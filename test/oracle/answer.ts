/** What happens to a flow, and why: SEMANTICS section 4. */
export interface Answer {
  verdict: 'Allow' | 'Drop' | 'Reject';
  policy: string | null;
  /**
   * null beside a policy: the rule has no name of its own, and its generated one is the
   * implementation's affair.
   */
  rule: string | null;
  ruleIndex: number | null;
  tier: string | null;
  reason: 'rule' | 'default' | 'exempt' | 'failsafe' | 'spoofed';
  /** Rules the failsafe skipped, in order; absent is the same as empty. */
  skipped?: readonly RuleName[];
  /** Audit rules that matched before the decision, in order; absent: the answer doesn't say. */
  audited?: readonly RuleName[];
}

/**
 * True when two answers agree; an unnamed rule (null beside a policy) agrees with any name.
 * `audited` is no part of what SEMANTICS asks of an answer, so it is compared only where both have
 * it.
 */
export function sameAnswer(a: Answer, b: Answer): boolean {
  return (
    a.verdict === b.verdict &&
    a.reason === b.reason &&
    a.tier === b.tier &&
    a.ruleIndex === b.ruleIndex &&
    sameRule(a, b) &&
    sameRules(a.skipped ?? [], b.skipped ?? []) &&
    (a.audited === undefined || b.audited === undefined || sameRules(a.audited, b.audited))
  );
}

/** A policy and one of its rules; null as in an answer. */
interface RuleName {
  readonly policy: string | null;
  readonly rule: string | null;
}

function sameRules(a: readonly RuleName[], b: readonly RuleName[]): boolean {
  return a.length === b.length && a.every((item, index) => sameRule(item, b[index]));
}

function sameRule(a: RuleName, b: RuleName | undefined): boolean {
  if (b === undefined || a.policy !== b.policy) return false;
  if (a.policy === null) return a.rule === b.rule;
  return a.rule === null || b.rule === null || a.rule === b.rule;
}
