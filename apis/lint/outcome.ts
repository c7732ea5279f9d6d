import type { RuleListEntry } from '../difference/entry.ts';
import type { FlowCell } from './cells.ts';

/** The evaluation of the flows of a cell, rule by rule. */
export interface CellOutcome {
  /** Whether what comes before all rules decides: an exemption, or the drop of spoofed flows. */
  readonly isBeforeRules: boolean;
  /** The rules that are evaluated; of Audit policies too. */
  readonly reached: readonly RuleListEntry[];
  /** The rules that are not, each with the one that ends the evaluation before it. */
  readonly hidden: readonly { readonly entry: RuleListEntry; readonly by: RuleListEntry }[];
  /** The Pass rule that leaves the rest to the baseline tier; null: none. */
  readonly passed: RuleListEntry | null;
  /** Null: no rule. */
  readonly decider: RuleListEntry | null;
  /** The first rule that the failsafe list skips, and that would else be evaluated; null: none. */
  readonly skipped: RuleListEntry | null;
}

/** @param isAudit whether a rule, by its order, decides nothing */
export function cellOutcome(cell: FlowCell, isAudit: (order: number) => boolean): CellOutcome {
  const { entries } = cell;
  const reached: RuleListEntry[] = [];
  const hidden: { entry: RuleListEntry; by: RuleListEntry }[] = [];
  let [passed, decider, skipped]: (RuleListEntry | null)[] = [null, null, null];
  const isBeforeRules = (entries[0]?.order ?? 0) < 0;
  for (const entry of isBeforeRules ? [] : entries) {
    const by = decider ?? (entry.isBaseline ? null : passed) ?? null;
    if (isSkipped(entry, cell)) {
      if (by === null && !isAudit(entry.order)) skipped ??= entry;
    } else if (by !== null) hidden.push({ entry, by });
    else {
      reached.push(entry);
      if (isAudit(entry.order)) continue;
      if (entry.isPass) passed = entry;
      else decider = entry;
    }
  }
  return {
    isBeforeRules,
    reached,
    hidden,
    passed: passed ?? null,
    decider: decider ?? null,
    skipped: skipped ?? null,
  };
}

/** Whether a rule matches none of these flows, because they are failsafe traffic. */
export function isSkipped(
  { isSkippable }: RuleListEntry,
  { isProtected }: Pick<FlowCell, 'isProtected'>,
): boolean {
  return isProtected && isSkippable;
}

/**
 * The rule that decides if some are left out; null: none.
 *
 * @param entries in the order of evaluation
 */
export function decidedBy(
  entries: readonly RuleListEntry[],
  isLeftOut: (entry: RuleListEntry) => boolean,
): RuleListEntry | null {
  let isPassed = false;
  for (const entry of entries) {
    if (isLeftOut(entry) || (isPassed && !entry.isBaseline)) continue;
    if (!entry.isPass) return entry;
    isPassed = true;
  }
  return null;
}
