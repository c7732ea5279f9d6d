/** What happens to a flow, and why: SEMANTICS section 4. */
export interface Answer {
  verdict: 'Allow' | 'Drop' | 'Reject';
  policy: string | null;
  /** null beside a policy: the rule has no name of its own, and its generated one is the implementation's affair. */
  rule: string | null;
  ruleIndex: number | null;
  tier: string | null;
  reason: 'rule' | 'default' | 'exempt' | 'failsafe';
  /** Rules the failsafe skipped, in order; absent is the same as empty. */
  skipped?: { policy: string; rule: string | null }[];
}

/** True when two answers agree; an unnamed rule (null beside a policy) agrees with any name. */
export function sameAnswer(a: Answer, b: Answer): boolean {
  const left = a.skipped ?? [];
  const right = b.skipped ?? [];
  return (
    a.verdict === b.verdict &&
    a.reason === b.reason &&
    a.tier === b.tier &&
    a.ruleIndex === b.ruleIndex &&
    sameRule(a, b) &&
    left.length === right.length &&
    left.every((item, index) => sameRule(item, right[index]))
  );
}

type RuleName = Pick<Answer, 'policy' | 'rule'>;

function sameRule(a: RuleName, b: RuleName | undefined): boolean {
  if (b === undefined || a.policy !== b.policy) return false;
  if (a.policy === null) return a.rule === b.rule;
  return a.rule === null || b.rule === null || a.rule === b.rule;
}
