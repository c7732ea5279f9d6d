import type { DataplaneName } from '../../apis/dataplanes.ts';
import {
  AGENT_FEATURES,
  EGRESS_FEATURE,
  type FailingRule,
  MOST_EGRESS_PROBLEMS,
  MOST_FAILING,
  type NodeEgressReport,
  type NodeReport,
  type NodeTotals,
  type TriedPolicy,
} from '../../apis/stream.ts';
import { publicKeyText, type WireGuardKeys } from '../egress/wireguard-keys.ts';
import type { GuardReport } from '../guard/holds.ts';
import type { AgentState } from './agent-state.ts';
import { LONGEST_REASON } from './rule-errors.ts';

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
  readonly totals: NodeTotals;
  readonly now: Date;
}

export interface EgressAbility {
  /**
   * Why this machine can't enforce what a view says of egress gateways; null: it can, if `config`
   * has the feature gate.
   */
  readonly refused: string | null;
  /** Keys of its WireGuard device, for the encrypted tunnel; null: it has none. */
  readonly keys: WireGuardKeys | null;
}

/** This node's means for egress gateways. */
export interface EgressCircumstances extends EgressAbility {
  /** Objects that the network configuration lacks. */
  readonly problems: readonly string[];
}

/** The report of this node for the controller. */
export function nodeReport(state: AgentState, circumstances: Circumstances): NodeReport {
  const { folded, inForce, enabled, off, viewError, failing, policies } = state;
  const { node, hostAddresses, version, dataplane, now, egress, guard, totals } = circumstances;
  const { held = [], tried = [] } = guard ?? {};
  return {
    node,
    revision: folded?.revision ?? null,
    enforced: inForce?.revision ?? null,
    enabled,
    ...(off === null ? {} : { off: off.reason }),
    ...(viewError === null ? {} : { viewError: viewError.slice(0, LONGEST_REASON) }),
    failing: held.length === 0 ? failing : withHeld(failing, held),
    ...(tried.length === 0 ? {} : { tried: tried.slice(0, MOST_FAILING).map(short) }),
    policies,
    hostAddresses,
    version,
    features: egress?.refused === null ? [...AGENT_FEATURES, EGRESS_FEATURE] : AGENT_FEATURES,
    ...(egress === undefined ? {} : { egress: egressReport(inForce, egress) }),
    totals,
    dataplane,
    time: now.toISOString(),
  };
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
  { refused, problems, keys }: EgressCircumstances,
): NodeEgressReport {
  if (refused !== null) return { refused: refused.slice(0, LONGEST_REASON) };
  const tunnel = inForce?.wanted.egress?.tunnel?.address;
  const some = problems.slice(0, MOST_EGRESS_PROBLEMS).map((one) => one.slice(0, LONGEST_REASON));
  return {
    ...(tunnel === undefined ? {} : { tunnel }),
    ...(keys === null ? {} : { key: publicKeyText(keys) }),
    ...(some.length === 0 ? {} : { problems: some }),
  };
}
