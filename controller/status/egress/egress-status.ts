import type { EgressGatewayStatus } from '../../../apis/egress/objects.ts';
import type { PolicyCondition } from '../../../apis/policy-status.ts';
import { utcText } from '../../../lib/process/clock.ts';
import type { PoolUsage } from '../../egress/owners/decide-gateway.ts';

/** The whole status of an EgressGateway, as it is written (apis/validate/egress/status.ts). */
export interface WrittenGatewayStatus extends EgressGatewayStatus {
  readonly observedGeneration: number;
  /** `tunnel`: the address of the node's end of the tunnel, as its agent reports it. */
  readonly nodes: readonly (EgressGatewayStatus['nodes'][number] & { readonly tunnel?: string })[];
  readonly usage: PoolUsage;
  readonly conditions: readonly EgressCondition[];
}

/** The whole status of an EgressPolicy or a ClusterEgressPolicy. */
export interface WrittenPolicyStatus {
  readonly observedGeneration: number;
  readonly addresses: readonly string[];
  readonly owners: readonly string[];
  readonly pods: number;
  readonly desiredNodesRealized: number;
  readonly currentNodesRealized: number;
  readonly conditions: readonly EgressCondition[];
}

export type EgressStatus = WrittenGatewayStatus | WrittenPolicyStatus;

export interface EgressCondition extends Omit<PolicyCondition, 'type'> {
  readonly type: string;
}

/** A condition without its times. */
export type EgressConditionState = Pick<EgressCondition, 'type' | 'status' | 'reason' | 'message'>;

/** Conditions with their times; one that says the same as before keeps its time. */
export function timed(
  said: readonly EgressConditionState[],
  generation: number,
  before: { readonly conditions?: readonly EgressCondition[] } | null,
  now: Date,
): readonly EgressCondition[] {
  return said.map(({ type, status, reason, message }) => {
    const last = before?.conditions?.find((one) => one.type === type);
    const isSame = last?.status === status;
    const lastTransitionTime = isSame ? last.lastTransitionTime : utcText(now);
    return { type, status, observedGeneration: generation, lastTransitionTime, reason, message };
  });
}

/**
 * The condition Accepted, by the errors of the object.
 *
 * @param isWaiting whether all of them end when the gateway is created that it names
 */
export function accepted(
  kind: 'gateway' | 'policy',
  problems: readonly string[],
  isWaiting = false,
): EgressConditionState {
  const [first] = problems;
  if (first === undefined)
    return { type: 'Accepted', status: 'True', reason: 'Valid', message: `The ${kind} is valid.` };
  const more = problems.length === 1 ? '' : ` (and ${problems.length - 1} more)`;
  const message = `${first.slice(0, LONGEST)}${more}`;
  return { type: 'Accepted', status: 'False', reason: isWaiting ? 'Waiting' : 'Invalid', message };
}

/** The condition Ready of a gateway. */
export function gatewayReady(nodes: EgressGatewayStatus['nodes']): EgressConditionState {
  const ready = nodes.filter((node) => node.ready).length;
  const message = `${ready} of ${nodes.length} nodes are ready.`;
  return ready > 0
    ? { type: 'Ready', status: 'True', reason: 'NodesReady', message }
    : { type: 'Ready', status: 'False', reason: nodes.length === 0 ? 'NoNodes' : 'NoReadyNode', message };
}

const LONGEST = 500;
