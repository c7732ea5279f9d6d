import { type CompiledPolicy, type CompiledRule, isDenying } from '../../apis/compiled.ts';
import type { NodeReport, RuleTotal } from '../../apis/node-report.ts';
import { memo } from '../../lib/sharing/memo.ts';

interface RuleSum {
  readonly packets: number;
  readonly bytes: number;
}

const NOTHING: RuleSum = { packets: 0, bytes: 0 };

/**
 * Packets and bytes of each rule that drops or rejects, over all nodes, since this process began to
 * hear of a node. What is added is the difference of two reports of one node: a sum of the nodes'
 * own totals would shrink when a node is removed, and Prometheus would take that for a counter that
 * began again. Memory: one entry for each such rule.
 */
export class RuleSums {
  readonly #policies: () => readonly CompiledPolicy[];
  readonly #denying = memo(denyingRules);
  readonly #sums = new Map<string, RuleSum>();

  /** @param policies returns the compiled ones, the same object as long as they are the same */
  constructor(policies: () => readonly CompiledPolicy[]) {
    this.#policies = policies;
  }

  /** The rules that drop or reject, by id, in evaluation order. */
  rules(): ReadonlyMap<string, CompiledRule> {
    return this.#denying(this.#policies());
  }

  get(rule: string): RuleSum {
    return this.#sums.get(rule) ?? NOTHING;
  }

  /** @param before the same node's report before this one; null: this is the first */
  receive(report: NodeReport, before: NodeReport | null): void {
    for (const { id, packets, bytes } of ruleGrowth(report, before, this.rules())) {
      const sum = this.get(id);
      this.#sums.set(id, { packets: sum.packets + packets, bytes: sum.bytes + bytes });
    }
  }

  /** Forgets rules that are no more. */
  forgetRemoved(): void {
    const known = this.rules();
    for (const id of this.#sums.keys()) if (!known.has(id)) this.#sums.delete(id);
  }
}

/**
 * The matches of the known rules on a node between two of its reports.
 *
 * @param before the same node's report before this one; null: this is the first
 */
export function* ruleGrowth(
  { totals }: Pick<NodeReport, 'totals'>,
  before: Pick<NodeReport, 'totals'> | null,
  known: Pick<ReadonlyMap<string, unknown>, 'has'>,
): Iterable<RuleSum & { readonly id: string }> {
  const last = before?.totals;
  if (totals?.rules === undefined || last?.rules === undefined) return;
  const was = new Map(last.rules.map((one): [string, RuleTotal] => [one[0], one]));
  for (const [id, packets, bytes] of totals.rules) {
    // A node could fill the memory with other names.
    if (!known.has(id)) continue;
    const base = was.get(id);
    // It may have been among those that were left out.
    if (base === undefined && last.isCut) continue;
    yield { id, packets: growth(base?.[1] ?? 0, packets), bytes: growth(base?.[2] ?? 0, bytes) };
  }
}

/** A counter that shrank began again. */
export function growth(before: number, now: number): number {
  return now < before ? now : now - before;
}

/** The rules that drop or reject, by id, in evaluation order. */
export function denyingRules(policies: readonly CompiledPolicy[]): ReadonlyMap<string, CompiledRule> {
  const rules = new Map<string, CompiledRule>();
  for (const policy of policies) {
    for (const rule of policy.rules) if (isDenying(rule)) rules.set(rule.id, rule);
  }
  return rules;
}
