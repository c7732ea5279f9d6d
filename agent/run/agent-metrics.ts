import type { Registry } from 'prom-client';
import type { Enforced } from '../apply/enforcer.ts';
import type { MonitorTrouble } from '../dataplane/dataplane.ts';
import type { RuleTotals } from '../record/accounting.ts';

/** The sources of events of the kernel. */
export type MonitorName = 'nf_tables' | 'links' | 'addresses' | 'routes' | 'conntrack' | 'flows';

/** Policies with a label of their own; the rest is added up under OTHERS. */
export const MOST_POLICIES = 1_000;
export const OTHERS = '(others)';

/** Adds series, of which some count rules. */
export type MoreSeries<S> = (registers: Registry[], totals: () => ReadonlyMap<string, RuleTotals>) => S;

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
  /** Other records were not written; an extension has a series of its own for them. */
  otherRecordsLost(records: number): void;
  /**
   * Adds the series of an extension: once for each function, which returns the same afterwards.
   * Null: there are no metrics.
   */
  extend<S>(series: MoreSeries<S>): S | null;
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
  otherRecordsLost() {},
  extend: () => null,
  monitor() {},
  counts() {},
  enabled() {},
  guard() {},
  rolledBack() {},
  off() {},
  connected() {},
  bookmark() {},
  unfollowable() {},
  tokenRefused() {},
  revision() {},
  reported() {},
};
