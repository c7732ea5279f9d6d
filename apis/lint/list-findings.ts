import type { CompiledRule, NodeState } from '../compiled.ts';
import type { BrokenFlows } from '../difference/required-flows.ts';
import type { DecidingRule } from '../difference/row.ts';
import type { SetTable } from '../difference/set-table.ts';
import type { List } from '../difference/side.ts';
import { witnessOf } from '../difference/witness.ts';
import type { Flow } from '../flow.ts';
import { type CellOutcome, cellOutcome, type FlowCell } from './cells.ts';
import type { Finding, FindingKind } from './finding.ts';
import type { LintedRule, ListLint, PeerCells } from './list-lint.ts';
import type { FactsCollector, RuleFacts } from './rule-facts.ts';

interface ListFindings {
  /** All rules of the list, in order. */
  readonly rules: readonly LintedRule[];
  readonly lint: ListLint;
  readonly list: List;
  readonly state: NodeState;
  /** Whether packets that pods send with a Node's address are dropped while there are rules. */
  readonly isSpoofingDropped: boolean;
  readonly isWithoutFlows: boolean;
  readonly table: SetTable;
}

/** A finding before its flow is known. */
interface Draft {
  readonly kind: FindingKind;
  readonly order: number;
  /** By order. */
  readonly others: readonly number[];
  readonly left: number | null;
}

/** The findings about the wanted rules of a list, each with a flow. */
export function findingsOf(of: ListFindings): Finding[] {
  const drafts = draftsOf(of);
  const flows = of.isWithoutFlows ? new Map<Draft, Flow>() : flowsOf(drafts, of);
  return drafts.map((draft) => {
    const { kind, order, others, left } = draft;
    const named = others.flatMap((other) => decidingRule(of.rules[other]?.rule) ?? []);
    const { direction } = of.list;
    const rule = decidingRule(of.rules[order]?.rule) ?? { policy: '', rule: '', ruleIndex: 0 };
    return { kind, direction, ...rule, rules: named, left, flow: flows.get(draft) ?? null };
  });
}

function decidingRule(rule: CompiledRule | undefined): DecidingRule | null {
  if (rule === undefined) return null;
  const { policy, rule: name, ruleIndex } = rule.source;
  return { policy, rule: name, ruleIndex };
}

function draftsOf({ rules, lint, state, isSpoofingDropped }: ListFindings): Draft[] {
  const facts = lint.facts();
  const wanted = rules.flatMap((one, order) =>
    one.isWanted ? [{ ...one, order, own: facts.of(order) }] : [],
  );
  const unreachable = new Set(
    wanted.filter(({ own }) => own.isMatched && !own.isReached).map(({ order }) => order),
  );
  const hasEffect = ({ hasEffect: changes, substitutes }: RuleFacts): boolean =>
    // If two rules are for the same flows, remove the one that decides nothing.
    changes || [...substitutes].some((order) => unreachable.has(order));
  // Without any rule in force, a Node's address would be accepted from pods.
  const isLast = isSpoofingDropped && state.rules.filter(({ mode }) => mode === 'Enforce').length === 1;
  const useless = new Set(
    (isLast ? [] : wanted)
      .filter(({ rule, own }) => own.isReached && isForVerdicts(rule) && !hasEffect(own))
      .map(({ order }) => order),
  );
  const draft = (kind: FindingKind, order: number, others: Iterable<number> = []): Draft => ({
    kind,
    order,
    left: null,
    others: [...others].filter((other) => other >= 0).sort((a, b) => a - b),
  });
  return wanted.flatMap(({ rule, order, own }): Draft[] => {
    const skipped = own.isFailsafe ? [draft('failsafe', order)] : [];
    if (!own.isMatched && own.isExempt) return [draft('unreachable', order)];
    if (!own.isMatched) {
      if (own.isFailsafe || hasUnknownNames(rule, state)) return skipped;
      return [draft('selects-nothing', order)];
    }
    if (unreachable.has(order)) return [draft('unreachable', order, own.hiders), ...skipped];
    if (rule.mode === 'Audit') return skipped;
    if (useless.has(order)) return [draft('no-effect', order, own.substitutes), ...skipped];
    const takers = takersOf(order, rules, facts);
    const left = own.decided / own.matched;
    const partly = takers.length === 0 ? [] : [{ ...draft('partly-shadowed', order, takers), left }];
    const narrower = wanted
      .filter((one) => !useless.has(one.order) && !unreachable.has(one.order))
      .filter((one) => isForVerdicts(one.rule) && isWider({ rule, order, own }, one))
      .map((one) => one.order);
    return [...partly, ...(narrower.length === 0 ? [] : [draft('wider', order, narrower)]), ...skipped];
  });
}

/** Whether leaving a rule out changes verdicts at most, and neither records nor connections. */
function isForVerdicts({ mode, log, source }: CompiledRule): boolean {
  return mode === 'Enforce' && log === null && source.established === undefined;
}

/** Whether names among the peers have no address here: their rule is for those they get later. */
function hasUnknownNames({ peers }: CompiledRule, { addressSets }: NodeState): boolean {
  return peers.some(
    (peer) => peer.kind === 'addresses' && (addressSets.get(peer.set)?.names.length ?? 0) > 0,
  );
}

/**
 * The rules with another verdict that decide flows of a rule before it, and match other flows too:
 * a rule that lies within it is an exception from it, and meant as such.
 */
function takersOf(order: number, rules: readonly LintedRule[], facts: FactsCollector): number[] {
  const action = rules[order]?.rule.action;
  return [...facts.of(order).hiders].filter((hider) => {
    const other = rules[hider]?.rule.action;
    if (other === action || other === 'Pass' || action === 'Pass') return false;
    return facts.of(hider).covering?.has(order) !== true;
  });
}

interface JudgedRule {
  readonly rule: CompiledRule;
  readonly order: number;
  readonly own: RuleFacts;
}

/**
 * Whether a rule matches all flows of another, and more. A rule that closes what is left, or allows
 * it, is meant to be wide.
 */
function isWider(wide: JudgedRule, narrow: JudgedRule): boolean {
  const { rule, own } = wide;
  if (rule.action !== narrow.rule.action || rule.action === 'Pass') return false;
  const isForAnybody = rule.peers.some(({ kind }) => kind === 'any');
  if (isForAnybody && (rule.action !== 'Allow' || rule.services.length === 0)) return false;
  return narrow.own.covering?.has(wide.order) === true && own.covering?.has(narrow.order) !== true;
}

/** A flow for each draft that has one. */
function flowsOf(
  drafts: readonly Draft[],
  { lint, list, state, table }: ListFindings,
): ReadonlyMap<Draft, Flow> {
  const flows = new Map<Draft, Flow>();
  const pending = new Set(drafts.filter(({ kind }) => kind !== 'selects-nothing'));
  const collector = lint.collector();
  /** Peers whose cells have no flow for any draft that is pending. */
  const barren = new Set<string>();
  for (const peers of pending.size === 0 ? [] : lint.peers()) {
    const asked = [...pending].filter(({ order }) => peers.orders.includes(order));
    if (asked.length === 0 || barren.has(peers.key)) continue;
    const found = Map.groupBy(
      [...peers.cells()].flatMap((cell) => {
        const outcome = cellOutcome(cell, (order) => lint.isAudit(order));
        const shows = (draft: Draft): boolean => isShown(draft, cell, outcome, collector);
        return asked.filter(shows).map((draft) => ({ draft, cell }));
      }),
      ({ draft }) => draft,
    );
    if (found.size === 0) barren.add(peers.key);
    for (const [draft, cells] of found) {
      const flow = flowAmong(
        cells.map(({ cell }) => cell),
        peers,
        { list, state, table },
      );
      if (flow === null) continue;
      flows.set(draft, flow);
      pending.delete(draft);
    }
    if (pending.size === 0) break;
  }
  return flows;
}

/** Whether the flows of a cell show what a draft says. */
function isShown(
  { kind, order, others }: Draft,
  cell: FlowCell,
  outcome: CellOutcome,
  collector: FactsCollector,
): boolean {
  const { hidden, passed, decider, skipped, isBeforeRules } = outcome;
  switch (kind) {
    case 'unreachable':
      if (others.length === 0) return isBeforeRules && cell.entries.some((entry) => entry.order === order);
      return hidden.some(({ entry }) => entry.order === order);
    case 'partly-shadowed':
      return hidden.some(({ entry, by }) => entry.order === order && others.includes(by.order));
    case 'no-effect':
      return decider?.order === order || passed?.order === order;
    case 'wider':
      return decider?.order === order && !cell.entries.some((entry) => others.includes(entry.order));
    case 'failsafe':
      return skipped?.order === order && collector.failsafeChanges(cell, outcome);
    case 'selects-nothing':
      return false;
    default:
      return kind satisfies never;
  }
}

function flowAmong(
  cells: readonly FlowCell[],
  { family, addresses, group }: PeerCells,
  { list, state, table }: Pick<ListFindings, 'list' | 'state' | 'table'>,
): Flow | null {
  const peers = table.space(family).ranges([addresses]);
  const flows = cells.map(
    ({ protocol, x, y }): BrokenFlows => ({
      list,
      family,
      peers,
      group,
      rule: null,
      table,
      unit: {
        before: 0,
        after: 0,
        kind: 'none',
        protocols: [protocol],
        xs: x === null ? null : [x],
        ys: y === null ? null : [y],
      },
    }),
  );
  return witnessOf(flows, state.nodeAddresses)?.flow ?? null;
}
