import type { DataplaneName } from '../../apis/dataplanes.ts';
import { AGENT_FEATURES, type NodeReport } from '../../apis/stream.ts';
import type { AgentState } from './agent-state.ts';
import { LONGEST_REASON } from './rule-errors.ts';

/** The fields of a report that are not part of the agent's state. */
interface Circumstances {
  readonly node: string;
  readonly hostAddresses: readonly string[];
  readonly version: string;
  readonly dataplane: DataplaneName;
  readonly now: Date;
}

/** The report of this node for the controller. */
export function nodeReport(state: AgentState, circumstances: Circumstances): NodeReport {
  const { folded, inForce, enabled, off, viewError, failing, policies } = state;
  const { node, hostAddresses, version, dataplane, now } = circumstances;
  return {
    node,
    revision: folded?.revision ?? null,
    enforced: inForce?.revision ?? null,
    enabled,
    ...(off === null ? {} : { off: off.reason }),
    ...(viewError === null ? {} : { viewError: viewError.slice(0, LONGEST_REASON) }),
    failing,
    policies,
    hostAddresses,
    version,
    features: AGENT_FEATURES,
    dataplane,
    time: now.toISOString(),
  };
}
