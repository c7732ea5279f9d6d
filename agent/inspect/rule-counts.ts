import type { CompiledRule } from '../../apis/compiled.ts';
import { isCount, isTime } from '../../apis/node-flows-check.ts';
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
  /** For rules that allow by addresses; absent: it is another. */
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

type Fields = Readonly<Record<string, unknown>>;

/** Reads the answer of another node, which may be compromised. Throws a TypeError if it is none. */
export function toRuleCounts(answer: unknown): RuleCounts {
  const { node, rules, spoofed, remark }: Fields = Object(answer);
  const wrong = Array.isArray(rules) ? rules.findIndex((rule) => !isCountedRule(rule)) : -1;
  const isWhole =
    typeof node === 'string' &&
    Array.isArray(rules) &&
    isCounter(spoofed) &&
    (remark === null || typeof remark === 'string');
  if (isWhole && wrong === -1) return answer as RuleCounts;
  throw new TypeError(`its answer is not one about counters${wrong === -1 ? '' : `: rules[${wrong}]`}`);
}

const TEXTS = ['id', 'tier', 'policy', 'apiGroup', 'rule'] as const;

function isCountedRule(value: unknown): boolean {
  const rule: Fields = Object(value);
  const { direction, ruleIndex, action, mode, traffic, since, width } = rule;
  return (
    TEXTS.every((name) => typeof rule[name] === 'string') &&
    (direction === 'ingress' || direction === 'egress') &&
    (action === 'Allow' || action === 'Drop' || action === 'Reject' || action === 'Pass') &&
    (mode === 'Enforce' || mode === 'Audit') &&
    (traffic === 'Host' || traffic === 'NodePort') &&
    isCount(ruleIndex) &&
    (since === null || isTime(since)) &&
    isCounter(rule) &&
    (width === undefined || isWidth(width))
  );
}

function isCounter(value: unknown): boolean {
  const { packets, bytes, lastHit }: Fields = Object(value);
  return isCount(packets) && isCount(bytes) && (lastHit === null || isTime(lastHit));
}

function isWidth(value: unknown): boolean {
  const { v4, v6, ports }: Fields = Object(value);
  return [v4, v6, ports].every((one) => one === null || isCount(one));
}
