import { type NodeReport, nodePhase } from './node-report.ts';
import type { PolicyStatus } from './policy-status.ts';
import type { RolloutStatus } from './rollout.ts';
import type { GuardrailStatus } from './validate/guardrail.ts';

/** Something that an operator has to look at. */
export interface StatusProblem {
  /** KIND/NAME */
  readonly object: string;
  readonly phase: string;
  readonly message: string;
}

/** An object, and what the controllers say of it; absent: nothing yet. */
export interface Reported<S> {
  readonly name: string;
  readonly status?: S | undefined;
}

const NOT_YET = 'no controller has written its status yet';
/** Phases of policies that are as wanted. */
const WELL = ['Realized', 'NoNodes'];

/** Objects of a cluster, by kind. */
interface ReportedObjects {
  readonly guardrails: readonly Reported<GuardrailStatus>[];
  readonly policies: readonly Reported<StatusWithRollout>[];
  readonly nodes: readonly Reported<NodeReport>[];
}

type StatusWithRollout = PolicyStatus & { readonly rollout?: RolloutStatus };

/**
 * The problems of a cluster, the worst first: `problems` of `nodewall status -o json`.
 *
 * @param now milliseconds since 1970
 */
export function statusProblems(
  { guardrails, policies, nodes }: ReportedObjects,
  now: number,
): StatusProblem[] {
  return [
    gateProblem(policies, nodes),
    ...guardrails.map(guardrailProblem),
    ...policies.map(policyProblem),
    ...nodes.map((one) => nodeProblem(one, now)),
  ].filter((one) => one !== null);
}

function guardrailProblem({ name, status }: Reported<GuardrailStatus>): StatusProblem | null {
  const object = `Guardrail/${name}`;
  if (status === undefined) return { object, phase: 'Pending', message: NOT_YET };
  if (status.phase === 'Holds') return null;
  if (status.phase === 'Pending')
    return { object, phase: status.phase, message: status.problems?.[0] ?? 'it is not evaluated yet' };
  const [{ node = '', item = '', rule = null } = {}] = status.violations;
  const by = rule === null ? 'no rule' : `${rule.policy}/${rule.rule}`;
  return { object, phase: status.phase, message: `${item} on ${node}: decided by ${by}` };
}

/** The problem of a policy; null: there is none. */
export function policyProblem({ name, status }: Reported<StatusWithRollout>): StatusProblem | null {
  const object = `ClusterNetworkPolicy/${name}`;
  if (status === undefined) return { object, phase: 'Pending', message: NOT_YET };
  const { phase, rollout } = status;
  if (rollout?.decision?.state === 'Paused')
    return { object, phase: 'Paused', message: rollout.message ?? `rollout ${rollout.progress ?? ''}` };
  const isTried = phase === 'Trying' && isWell(status);
  if (WELL.includes(phase) || isTried || isUnderWay(status)) return null;
  return { object, phase, message: policyMessage(status) };
}

/** A rollout goes on as it should: the nodes of its steps enforce the policy, the others wait. */
export function isUnderWay(status: StatusWithRollout): boolean {
  const isWaiting = ['Pending', 'Realizing', 'Trying'].includes(status.phase);
  return isWaiting && isWell(status) && status.rollout?.decision?.state === 'Progressing';
}

/** No node fails, and no probe of a node that tries the policy does. */
function isWell(status: StatusWithRollout): boolean {
  const { rollout, failingNodes = [], problems = [] } = status;
  return failingNodes.length === 0 && problems.length === 0 && (rollout?.failed ?? []).length === 0;
}

/** Policies' statuses say that the feature gate is not set. */
function gateProblem(
  policies: readonly Reported<PolicyStatus>[],
  nodes: readonly Reported<NodeReport>[],
): StatusProblem | null {
  const unset = policies
    .flatMap(({ status }) => status?.conditions ?? [])
    .find(({ type, status }) => type === 'GateSet' && status === 'False');
  if (unset === undefined) return null;
  const count = nodes.filter(({ status }) => status?.enabled === true).length;
  const goOn = `${count} ${count === 1 ? 'node enforces' : 'nodes enforce'} rules now. ${unset.message}`;
  return { object: 'FeatureGate/NodeNetworkPolicy', phase: 'Unset', message: goOn };
}

/** Why a policy is in its phase. */
export function policyMessage(status: PolicyStatus): string {
  const { failingNodes = [], problems = [], conditions } = status;
  const [failing] = failingNodes;
  return (
    problems[0] ??
    (failing === undefined
      ? conditions.find(({ type }) => type === 'Realized')?.message
      : `${failing.node}: ${failing.reason}`) ??
    `${status.currentNodesRealized} of ${status.desiredNodesRealized} nodes enforce it`
  );
}

function nodeProblem({ name, status }: Reported<NodeReport>, now: number): StatusProblem | null {
  const phase = nodePhase(status ?? null, now);
  const message = nodePhaseMessage(status ?? null, now);
  return message === '' ? null : { object: `Node/${name}`, phase, message };
}

/**
 * Why a node is in its phase; '': it is as wanted.
 *
 * @param now milliseconds since 1970
 */
export function nodePhaseMessage(report: NodeReport | null, now: number): string {
  const phase = nodePhase(report, now);
  switch (phase) {
    case 'Enforced':
    case 'Disabled':
      return '';
    case 'Pending':
      return 'it has rules that are not in force yet';
    case 'Failing':
      return `${report?.failing.length} rules fail; the first: ${report?.failing[0]?.reason}`;
    case 'NotFollowing':
      return report?.viewError || 'it cannot follow the controller';
    case 'Off':
      return `nodewall off${report?.off ? `: ${report.off}` : ''}; nothing is enforced`;
    case 'Silent':
      return `no report since ${report?.time}; the last rules are in force`;
    case 'Unknown':
      return 'its agent has never reported';
    default:
      return phase satisfies never;
  }
}
