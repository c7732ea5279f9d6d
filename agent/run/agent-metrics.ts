import type { Enforced } from '../apply/enforcer.ts';
import type { RuleTotals } from '../record/accounting.ts';

/** What an agent tells whoever measures it. */
export interface AgentMetrics {
  enforced(result: Enforced): void;
  failed(): void;
  drifted(): void;
  /** Where what rules counted can be asked for; null: nothing is enforced any more. */
  counts(totals: (() => Map<string, RuleTotals>) | null): void;
  /** Whether the feature gate lets the agent enforce anything. */
  enabled(enabled: boolean): void;
  /** Whether `nodewall off` holds. */
  off(isOff: boolean): void;
  /** The agent of a cluster alone. */
  connected(connected: boolean): void;
  bookmark(revision: string): void;
  /** Why not even the controller's whole view can be followed; a bookmark ends that. */
  unfollowable(reason: string): void;
  /** The revision that is in force. */
  revision(enforced: string | null): void;
  reported(): void;
}

/** Without --metrics-listen nobody asks, and nothing is loaded for it. */
export const NO_METRICS: AgentMetrics = {
  enforced() {},
  failed() {},
  drifted() {},
  counts() {},
  enabled() {},
  off() {},
  connected() {},
  bookmark() {},
  unfollowable() {},
  revision() {},
  reported() {},
};
