import { type CompiledRule, isDenying, type NodeState } from '../../apis/compiled.ts';
import type { DataplaneName } from '../../apis/config.ts';
import { isSkippable } from '../../apis/exemptions.ts';
import {
  AGENT_FEATURES,
  EGRESS_FEATURE,
  type FailingRule,
  MOST_EGRESS_PROBLEMS,
  MOST_FAILING,
  MOST_RULE_TOTALS,
  type NodeEgressReport,
  type NodeReport,
  type NodeTotals,
  type RuleTotal,
  type TriedPolicy,
} from '../../apis/node-report.ts';
import { type PlatformEntry, type PlatformRow, platformRows } from '../../apis/platform.ts';
import type { Enforced } from '../apply/enforcer.ts';
import { changedPolicies, policyKey } from '../apply/envelope.ts';
import { RefusedError } from '../apply/reconciler-interface.ts';
import type { GuardReport } from '../guard/holds.ts';
import type { RuleTotals } from '../record/accounting.ts';
import { RenderError } from '../render/rule-chain.ts';
import type { AgentMetrics } from './agent-metrics.ts';
import type { AgentState } from './agent-state.ts';

/** The fields of a report that are not part of the agent's state. */
interface Circumstances {
  readonly node: string;
  readonly hostAddresses: readonly string[];
  readonly version: string;
  readonly dataplane: DataplaneName;
  /** Absent: it has nothing to say. */
  readonly egress?: EgressCircumstances;
  /** Guarded apply; null or absent: it has nothing to say. */
  readonly guard?: GuardReport | null;
  /** Why NodePort policies match nothing on this node; null or absent: they are enforced. */
  readonly unseenProxy?: string | null;
  readonly totals: NodeTotals;
  /** The platform's entries of the failsafe list; null or absent: nothing is enforced. */
  readonly platform?: readonly PlatformEntry[] | null;
  readonly now: Date;
}

/** This node's means for egress gateways. */
interface EgressCircumstances {
  /**
   * Why this machine can't enforce what a view says of egress gateways; null: it can, if `config`
   * has the feature gate.
   */
  readonly refused: string | null;
  /** The public key of its end of the encrypted tunnel; null: it has none. */
  readonly publicKey: string | null;
  /** Objects that the network configuration lacks. */
  readonly problems: readonly string[];
}

/** The report of this node for the controller. */
export function nodeReport(state: AgentState, circumstances: Circumstances): NodeReport {
  const { folded, inForce, enabled, off, viewError, failing, policies } = state;
  const { node, hostAddresses, version, dataplane, now, egress, guard, totals } = circumstances;
  const { unseenProxy, platform } = circumstances;
  const { held = [], tried = [] } = guard ?? {};
  const failures = held.length === 0 ? failing : withHeld(failing, held);
  return {
    node,
    revision: folded?.revision ?? null,
    enforced: inForce?.revision ?? null,
    enabled,
    ...(off === null ? {} : { off: off.reason }),
    ...(viewError === null ? {} : { viewError: viewError.slice(0, LONGEST_REASON) }),
    failing: unseenProxy == null ? failures : withUnseen(failures, inForce, unseenProxy),
    ...(tried.length === 0 ? {} : { tried: tried.slice(0, MOST_FAILING).map(short) }),
    policies,
    hostAddresses,
    version,
    features: egress?.refused === null ? [...AGENT_FEATURES, EGRESS_FEATURE] : AGENT_FEATURES,
    ...(egress === undefined ? {} : { egress: egressReport(inForce, egress) }),
    totals,
    ...(platform == null ? {} : { platform: platformRows(platform).map(shortRow) }),
    dataplane,
    time: now.toISOString(),
  };
}

function shortRow(row: PlatformRow): PlatformRow {
  return { ...row, reason: row.reason.slice(0, LONGEST_REASON) };
}

/** Failures, and the NodePort policies in force without one. */
function withUnseen(
  failing: readonly FailingRule[],
  inForce: AgentState['inForce'],
  reason: string,
): FailingRule[] {
  const failed = new Set(failing.map((source) => policyKey({ source })));
  const unseen = new Map<string, FailingRule>();
  for (const { traffic, source } of inForce?.wanted.rules ?? []) {
    const { apiGroup, policy, generation } = source;
    const key = policyKey({ source });
    if (traffic === 'NodePort' && !failed.has(key))
      unseen.set(key, { apiGroup, policy, generation, rule: null, reason, notEnforced: true });
  }
  return [...failing, ...unseen.values()].slice(0, MOST_FAILING);
}

/** The hold explains a policy that is held and fails in its confirmed version too. */
function withHeld(failing: readonly FailingRule[], held: readonly FailingRule[]): FailingRule[] {
  const isHeld = ({ apiGroup, policy }: FailingRule): boolean =>
    held.some((one) => one.apiGroup === apiGroup && one.policy === policy);
  const short = held.map((one) => ({ ...one, reason: one.reason.slice(0, LONGEST_REASON) }));
  return [...short, ...failing.filter((one) => !isHeld(one))].slice(0, MOST_FAILING);
}

function short(one: TriedPolicy): TriedPolicy {
  return one.reason === undefined ? one : { ...one, reason: one.reason.slice(0, LONGEST_REASON) };
}

function egressReport(
  inForce: AgentState['inForce'],
  { refused, problems, publicKey }: EgressCircumstances,
): NodeEgressReport {
  if (refused !== null) return { refused: refused.slice(0, LONGEST_REASON) };
  const tunnel = inForce?.wanted.egress?.tunnel?.address;
  const some = problems.slice(0, MOST_EGRESS_PROBLEMS).map((one) => one.slice(0, LONGEST_REASON));
  return {
    ...(tunnel === undefined ? {} : { tunnel }),
    ...(publicKey === null ? {} : { key: publicKey }),
    ...(some.length === 0 ? {} : { problems: some }),
  };
}

/** Longest reason (characters). Longer ones are cut, because people read them in a status. */
const LONGEST_REASON = 500;

/** The policies that an apply left out or kept in an earlier version, for the report. */
export function failingRules({ failed, envelope }: Pick<Enforced, 'failed' | 'envelope'>): FailingRule[] {
  const policies = Map.groupBy(envelope.plain.rules, policyKey);
  return [...failed].slice(0, MOST_FAILING).flatMap(([key, error]) => {
    const [first] = policies.get(key) ?? [];
    return first === undefined ? [] : [failingRule(first, error)];
  });
}

/** The policies to report if nothing could be applied: all that are wanted and not in force. */
export function allFailing(wanted: NodeState, inForce: NodeState | null, error: Error): FailingRule[] {
  const policies = Map.groupBy(wanted.rules, policyKey);
  return changedPolicies(wanted, inForce)
    .slice(0, MOST_FAILING)
    .flatMap((key) => policies.get(key)?.slice(0, 1) ?? [])
    .map((rule) => failingRule(rule, error));
}

function failingRule({ source }: CompiledRule, error: Error): FailingRule {
  const { apiGroup, policy, generation } = source;
  const blamed = error instanceof RefusedError || error instanceof RenderError ? error.source : null;
  const isOfIt = blamed?.apiGroup === apiGroup && blamed.policy === policy;
  return {
    apiGroup,
    policy,
    generation,
    rule: isOfIt ? blamed.rule : null,
    reason: error.message.slice(0, LONGEST_REASON),
  };
}

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
