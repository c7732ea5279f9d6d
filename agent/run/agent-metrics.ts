import type { Enforced } from '../apply/enforcer.ts';
import type { MonitorTrouble } from '../dataplane/dataplane.ts';
import type { EgressHealthReport } from '../egress/health/health-report.ts';
import type { LeaseCounts } from '../egress/lease/thread-messages.ts';
import type { RecordOutcome } from '../egress/record/binding-recorder.ts';
import type { RuleTotals } from '../record/accounting.ts';

/** The sources of events of the kernel. */
export type MonitorName = 'nf_tables' | 'links' | 'addresses' | 'routes' | 'conntrack' | 'flows';

/** The values that an agent exports as metrics. */
export interface AgentMetrics {
  /** All of them in Prometheus' text format; null: there are none. */
  readonly text: (() => Promise<string>) | null;
  enforced(result: Enforced): void;
  failed(): void;
  drifted(): void;
  /** Established connections were ended that a rule of this policy (API group/name) denies. */
  ended(policy: string, connections: number): void;
  /** Records of flows were not written. */
  recordsLost(records: number): void;
  /** Lines of egress-records.jsonl were written, or lost. */
  egressRecords(outcome: RecordOutcome, lines: number): void;
  /**
   * Sets the function that returns what this node finds out about gateways; null: there is none.
   */
  egressHealth(report: (() => EgressHealthReport) | null): void;
  /** This node's leases of floating addresses; null: none, as no rules are in force. */
  leases(counts: LeaseCounts | null): void;
  /** Counts a trouble of a monitor. */
  monitor(name: MonitorName, trouble: MonitorTrouble): void;
  /** Sets the function that returns the totals of each rule; null: nothing is enforced any more. */
  counts(totals: (() => Map<string, RuleTotals>) | null): void;
  /** Sets whether the feature gate lets the agent enforce anything. */
  enabled(enabled: boolean): void;
  /** Guarded apply: the policies that are tried, and that are held. */
  guard(tried: number, held: number): void;
  /** A change was rolled back; by a probe's name, or what else was the reason. */
  rolledBack(probe: string): void;
  /** Sets whether the node is off (`nodewall off`). */
  off(isOff: boolean): void;
  /** Sets how many parts the network configuration of egress gateways lacks. */
  egressLacks(count: number): void;
  /** Adds the series of egress gateways; may be called again. */
  withEgress(): void;
  /** This and the following methods are for the agent of a cluster only. */
  connected(connected: boolean): void;
  bookmark(revision: string): void;
  /** Sets the reason why even the controller's whole view can't be folded; a bookmark resets it. */
  unfollowable(reason: string): void;
  /** Whether a controller, or the API server, refuses this agent's token (401). */
  tokenRefused(isRefused: boolean): void;
  /** Sets the revision in force; null: nothing is in force, or its revision isn't known. */
  revision(enforced: string | null): void;
  reported(): void;
}

/** Used without --metrics-listen; loads no library. */
export const NO_METRICS: AgentMetrics = {
  text: null,
  enforced() {},
  failed() {},
  drifted() {},
  ended() {},
  recordsLost() {},
  egressRecords() {},
  egressHealth() {},
  egressLacks() {},
  leases() {},
  monitor() {},
  counts() {},
  enabled() {},
  guard() {},
  rolledBack() {},
  off() {},
  withEgress() {},
  connected() {},
  bookmark() {},
  unfollowable() {},
  tokenRefused() {},
  revision() {},
  reported() {},
};
