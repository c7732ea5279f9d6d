import type { Range } from '../../lib/net/interval.ts';
import type { Evaluated, RuleListEntry } from '../difference/entry.ts';
import { type Item, ItemsAlong, isDistinct, rangesBetween, Sweep } from '../difference/first-match.ts';
import { type Box, NUMBERED, OTHER, protocolsOf, wholeBox } from '../difference/service-space.ts';
import type { Direction } from '../objects.ts';

/** Flows of one peer that the same entries match. */
export interface FlowCell {
  /** OTHER stands for all others. */
  readonly protocol: number;
  /** The two numbers of the protocol; null: every value. */
  readonly x: Range | null;
  readonly y: Range | null;
  /** The share of all combinations of a protocol and its numbers, in parts of 256. */
  readonly size: number;
  /** Failsafe traffic. */
  readonly isProtected: boolean;
  /** Each rule once, in the order of evaluation. */
  readonly entries: readonly RuleListEntry[];
}

/**
 * All flows of one peer, in disjoint cells; those that no entry matches are left out.
 *
 * Cost: n log n, and the entries of each cell. Of n boxes that overlap in both numbers there are n²
 * cells.
 *
 * @param checkpoint called before each cell; may throw
 */
export function* cellsOf(
  family: 4 | 6,
  direction: Direction,
  evaluated: Evaluated,
  checkpoint: () => void,
): Iterable<FlowCell> {
  const { numbers } = evaluated;
  const protocols = protocolsOf(family, numbers);
  const distinct = protocols.filter((protocol) => isDistinct(protocol, evaluated));
  // Protocols without numbers of their own, and those that nothing here tells apart from them.
  const others = 256 - NUMBERED.length - numbers.length + protocols.length - distinct.length;
  for (const protocol of distinct)
    for (const cell of cellsOfProtocol(
      protocol,
      wholeBox(protocol, direction, family),
      evaluated,
      protocol === OTHER ? others : 1,
    )) {
      checkpoint();
      if (cell.entries.length > 0) yield cell;
    }
}

function* cellsOfProtocol(
  protocol: number,
  whole: Box,
  evaluated: Evaluated,
  protocols: number,
): Iterable<FlowCell> {
  const sweep = new Sweep(protocol, whole, evaluated);
  const all = sizeOf(whole.x) * sizeOf(whole.y);
  for (const x of rangesBetween([sweep], whole.x)) {
    const { items, isProtected } = sweep.at(x[0]);
    for (const [y, within] of divided(items, whole.y)) {
      yield {
        protocol,
        x: isSame(x, whole.x) ? null : x,
        y: isSame(y, whole.y) ? null : y,
        size: (protocols * sizeOf(x) * sizeOf(y)) / all,
        isProtected,
        entries: eachOnce(within),
      };
    }
  }
}

/** The ranges of the second number that the same items have. */
function* divided(items: readonly Item[], whole: Range): Iterable<readonly [Range, readonly Item[]]> {
  if (items.every(({ y }) => isSame(y, whole))) {
    yield [whole, items];
    return;
  }
  const along = new ItemsAlong(items, 'y');
  const cuts = [...new Set([whole[0], ...along.cuts()])].sort((a, b) => a - b);
  for (const [i, first] of cuts.entries()) {
    if (first <= whole[1]) yield [[first, (cuts[i + 1] ?? whole[1] + 1) - 1], along.at(first)];
  }
}

function eachOnce(items: readonly Item[]): RuleListEntry[] {
  return items.flatMap(({ entry }, i) => (items[i - 1]?.entry.order === entry.order ? [] : [entry]));
}

function sizeOf([first, last]: Range): number {
  return last - first + 1;
}

function isSame(a: Range, b: Range): boolean {
  return a[0] === b[0] && a[1] === b[1];
}

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
