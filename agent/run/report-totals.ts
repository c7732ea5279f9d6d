import { type CompiledRule, isDenying } from '../../apis/compiled.ts';
import { isSkippable } from '../../apis/failsafe.ts';
import { MOST_RULE_TOTALS, type NodeTotals, type RuleTotal } from '../../apis/node-report.ts';
import type { RuleTotals } from '../record/accounting.ts';
import type { AgentMetrics } from './agent-metrics.ts';

/** Counts for reports what the metrics count, also of an agent without metrics. */
export class ReportTotals {
  #drifts = 0;
  #rollbacks = 0;
  #recordsLost = 0;
  #denied = 0;
  #rules: readonly CompiledRule[] = [];
  #totals: (() => ReadonlyMap<string, RuleTotals>) | null = null;
  /** The packets of each denying rule, as of the last report. */
  #packets: ReadonlyMap<string, number> | null = null;

  /** The same metrics, with what this counts taken from their calls. */
  over(metrics: AgentMetrics): AgentMetrics {
    return {
      ...metrics,
      drifted: () => {
        this.#drifts++;
        metrics.drifted();
      },
      rolledBack: (probe) => {
        this.#rollbacks++;
        metrics.rolledBack(probe);
      },
      recordsLost: (records) => {
        this.#recordsLost += records;
        metrics.recordsLost(records);
      },
      otherRecordsLost: (records) => {
        this.#recordsLost += records;
        metrics.otherRecordsLost(records);
      },
      counts: (totals) => {
        this.#totals = totals;
        if (totals === null) this.#rules = [];
        metrics.counts(totals);
      },
      enforced: (result) => {
        this.#rules = result.resolved.rules;
        metrics.enforced(result);
      },
    };
  }

  /** For a report that is sent now. */
  next(): NodeTotals {
    const rules = this.#totals === null ? null : this.#hit(this.#totals());
    if (rules !== null) this.#addDenied(rules);
    return {
      drifts: this.#drifts,
      rollbacks: this.#rollbacks,
      recordsLost: this.#recordsLost,
      denied: this.#denied,
      failsafeRules: this.#rules.filter((rule) => isDenying(rule) && isSkippable(rule)).length,
      ...(rules === null ? {} : { rules: rules.slice(0, MOST_RULE_TOTALS) }),
      ...(rules !== null && rules.length > MOST_RULE_TOTALS ? { isCut: true } : {}),
    };
  }

  /** The denying rules that were hit, sorted by id. */
  #hit(totals: ReadonlyMap<string, RuleTotals>): RuleTotal[] {
    const ids = new Set(this.#rules.filter(isDenying).map(({ id }) => id));
    return [...ids].sort().flatMap((id): RuleTotal[] => {
      const { packets = 0, bytes = 0 } = totals.get(id) ?? {};
      return packets === 0 ? [] : [[id, packets, bytes]];
    });
  }

  /** A rule's total begins again where the rule was removed meanwhile. */
  #addDenied(rules: readonly RuleTotal[]): void {
    const before = this.#packets;
    this.#packets = new Map(rules.map(([id, packets]): [string, number] => [id, packets]));
    // Earlier runs of the agent counted these.
    if (before === null) return;
    for (const [id, packets] of rules) {
      const last = before.get(id) ?? 0;
      this.#denied += packets < last ? packets : packets - last;
    }
  }
}
