import type { CompiledRule } from '../../apis/compiled.ts';
import type { RuleTotals } from '../record/accounting.ts';
import { SPOOFED } from '../render/anti-spoofing.ts';
import { type RuleWidth, ruleWidth } from './rule-width.ts';
import { readState, readTotals } from './saved-state.ts';

export type Count = Pick<RuleTotals, 'packets' | 'bytes' | 'lastHit'>;

/** A rule in force, and its counters. */
export interface CountedRule extends Count {
  readonly id: string;
  readonly direction: CompiledRule['source']['direction'];
  readonly tier: string;
  readonly policy: string;
  readonly apiGroup: string;
  readonly rule: string;
  readonly ruleIndex: number;
  readonly action: CompiledRule['action'];
  readonly mode: CompiledRule['mode'];
  readonly traffic: CompiledRule['traffic'];
  /** Since when it is counted (ISO 8601); null: it is not yet. */
  readonly since: string | null;
  /** Of rules that allow by addresses; absent: it is another. */
  readonly width?: RuleWidth;
}

/** The rules in force on a node, in the order of evaluation. */
export interface RuleCounts {
  readonly node: string;
  readonly rules: readonly CountedRule[];
  /** Packets of anti-spoofing. */
  readonly spoofed: Count;
  /** Why the counters may be older than now; null: they are of now. */
  readonly remark: string | null;
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
