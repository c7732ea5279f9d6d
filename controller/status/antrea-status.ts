import type { FailingNode, PolicyCondition, PolicyPhase, PolicyStatus } from '../../apis/policy-status.ts';
import { utcText } from '../../lib/process/clock.ts';

/** The `status` of a ClusterNetworkPolicy of crd.antrea.io/v1beta1. */
export interface AntreaStatus {
  readonly phase: Extract<PolicyPhase, 'Pending' | 'Realizing' | 'Realized' | 'Failed'>;
  readonly observedGeneration: number;
  readonly currentNodesRealized: number;
  readonly desiredNodesRealized: number;
  readonly conditions: readonly AntreaCondition[];
}

export interface AntreaCondition {
  /** RealizationFailure is there only while nodes fail. */
  readonly type: 'Realizable' | 'RealizationFailure';
  readonly status: 'True' | 'False';
  /** When `status` last changed: ISO 8601, UTC, to the second. */
  readonly lastTransitionTime: string;
  readonly reason?: string;
  readonly message?: string;
}

/** The fields that the statuses of both API groups have. */
export interface WrittenStatus
  extends Pick<
    PolicyStatus,
    'phase' | 'observedGeneration' | 'currentNodesRealized' | 'desiredNodesRealized'
  > {
  readonly conditions: readonly Pick<
    PolicyCondition | AntreaCondition,
    'type' | 'status' | 'lastTransitionTime'
  >[];
}

/** Characters: Antrea's limit of a condition's message, before the dots. */
const LONGEST_MESSAGE = 256;

/**
 * The status that Antrea's controller would write of a policy with this status: Pending is a
 * version that is not to be enforced, Realized one that all of its nodes enforce, of no node too,
 * and Failed one that fails on all others.
 * @param failing as those of Progress
 * @param before the present status; unchanged conditions keep their times
 */
export function toAntreaStatus(
  { phase, observedGeneration, currentNodesRealized, desiredNodesRealized, conditions }: PolicyStatus,
  failing: readonly FailingNode[],
  before: Pick<WrittenStatus, 'conditions'> | null,
  now: Date,
): AntreaStatus {
  const condition = (
    type: AntreaCondition['type'],
    status: AntreaCondition['status'],
    said: Pick<AntreaCondition, 'reason' | 'message'>,
  ): AntreaCondition => {
    const last = before?.conditions?.find((one) => one.type === type);
    const time = utcText(now);
    const lastTransitionTime = last?.status === status ? last.lastTransitionTime : time;
    return { type, status, lastTransitionTime, ...said };
  };
  const why = conditions.find(({ type, status }) => type === 'Accepted' && status !== 'True');
  const off = phase === 'Disabled' ? conditions.find(({ type }) => type === 'Realized') : undefined;
  const unrealizable = why ?? off;
  if (unrealizable !== undefined) {
    const { reason, message } = unrealizable;
    const realizable = condition('Realizable', 'False', { reason, message: short(message) });
    const none = { currentNodesRealized: 0, desiredNodesRealized: 0 };
    return { phase: 'Pending', observedGeneration, ...none, conditions: [realizable] };
  }
  const failed = new Map(failing.toReversed().map(({ node, reason }) => [node, reason]));
  const nodes = [...failed].sort().map(([node, reason]) => `"${node}":"${reason}"`);
  const failure = {
    reason: 'NetworkPolicyRealizationFailedOnNode',
    message: short(`Failed Nodes count ${nodes.length}: ${nodes.join(', ')}`),
  };
  const isRealized = currentNodesRealized === desiredNodesRealized;
  const isFailed = failed.size > 0 && currentNodesRealized + failed.size >= desiredNodesRealized;
  return {
    phase: isRealized ? 'Realized' : isFailed ? 'Failed' : 'Realizing',
    observedGeneration,
    currentNodesRealized,
    desiredNodesRealized,
    conditions: [
      condition('Realizable', 'True', {}),
      ...(failed.size === 0 ? [] : [condition('RealizationFailure', 'True', failure)]),
    ],
  };
}

function short(text: string): string {
  return text.length <= LONGEST_MESSAGE ? text : `${text.slice(0, LONGEST_MESSAGE)}...`;
}
