import type { CompiledRule } from '../../apis/compiled.ts';
import {
  COUNT,
  checked,
  list,
  nullable,
  type Of,
  object,
  oneOf,
  TIME,
  text,
} from '../../apis/schema/shape.ts';
import type { RuleTotals } from '../record/accounting.ts';
import { SPOOFED } from '../render/anti-spoofing.ts';
import { ruleWidth } from './rule-width.ts';
import { readState, readTotals } from './saved-state.ts';

export type Count = Of<typeof COUNTER>;
const TOTALS = { packets: COUNT, bytes: COUNT, lastHit: nullable(TIME) };
const COUNTER = object(TOTALS);

/** A rule in force, and its counters. */
export type CountedRule = Of<typeof COUNTED_RULE>;
const COUNTED_RULE = object(
  {
    id: text(),
    direction: oneOf('ingress', 'egress'),
    tier: text(),
    policy: text(),
    apiGroup: text(),
    rule: text(),
    ruleIndex: COUNT,
    action: oneOf('Allow', 'Drop', 'Reject', 'Pass'),
    mode: oneOf('Enforce', 'Audit'),
    traffic: oneOf('Host', 'NodePort'),
    /** Since when it is counted (ISO 8601); null: it is not yet. */
    since: nullable(TIME),
    ...TOTALS,
  },
  {
    /** For rules that allow by addresses; absent: it is another. */
    width: object({ v4: nullable(COUNT), v6: nullable(COUNT), ports: nullable(COUNT) }),
  },
);

/** The rules in force on a node, in the order of evaluation. */
export type RuleCounts = Of<typeof RULE_COUNTS>;
const RULE_COUNTS = object({
  node: text(),
  rules: list(COUNTED_RULE),
  /** Packets of anti-spoofing. */
  spoofed: COUNTER,
  /** Why the counters may be older than now; null: they are of now. */
  remark: nullable(text()),
});

/**
 * The key of a rule where the answers of several nodes are added up. Not the id alone: a node that
 * a third party has taken over can give any rule the id of another.
 */
export function ruleKey({ id, apiGroup, policy, direction, rule }: CountedRule): string {
  return JSON.stringify([id, apiGroup, policy, direction, rule]);
}

/** Reads files of the agent, and the kernel. Throws a CommandError if no rule was ever in force. */
export async function ruleCounts(stateDir: string, policy?: string): Promise<RuleCounts> {
  const state = await readState(stateDir);
  const { totals, since, remark } = await readTotals(stateDir, () => new Date().toISOString());
  const rules = state.rules
    .filter(({ source }) => policy === undefined || source.policy === policy)
    .map((rule) => {
      const width = rule.action === 'Allow' ? ruleWidth(rule, state) : null;
      const counted = { ...countedRule(rule, totals.get(rule.id)), since: since.get(rule.id) ?? null };
      return width === null ? counted : { ...counted, width };
    });
  return { node: state.node, rules, spoofed: countOf(totals.get(SPOOFED)), remark };
}

function countedRule(
  { id, source, tier, action, mode, traffic }: CompiledRule,
  totals: RuleTotals | undefined,
): Omit<CountedRule, 'since' | 'width'> {
  const { direction, policy, apiGroup, rule, ruleIndex } = source;
  const of = { id, direction, tier, policy, apiGroup, rule, ruleIndex, action, mode, traffic };
  return { ...of, ...countOf(totals) };
}

function countOf({ packets, bytes, lastHit }: Count = { packets: 0, bytes: 0, lastHit: null }): Count {
  return { packets, bytes, lastHit };
}

/** Reads the answer of another node, which may be compromised. Throws InvalidError. */
export function toRuleCounts(answer: unknown): RuleCounts {
  return checked(RULE_COUNTS, answer, 'its answer is not one about counters');
}
