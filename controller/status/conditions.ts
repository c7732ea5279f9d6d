import type { Condition } from '../../apis/policy-status.ts';
import type { ReadinessCondition } from '../../apis/schema/crd-parts.ts';
import { utcText } from '../../lib/process/clock.ts';

/** A condition without its times. */
export type ConditionState<Type extends string = string> = Pick<
  Condition<Type>,
  'type' | 'status' | 'reason' | 'message'
>;

/**
 * The conditions by which tools judge objects of any kind (kstatus:
 * https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus): Ready; Reconciling, while
 * controller and nodes work on it, or it waits for what is usually on its way; Stalled, while
 * nothing moves until somebody changes something.
 */
export function readinessConditions(
  readiness: ReadinessCondition,
  { reason, message }: Pick<ConditionState, 'reason' | 'message'>,
): ConditionState<ReadinessCondition>[] {
  const holds = { type: readiness, status: 'True', reason, message } as const;
  return readiness === 'Ready' ? [holds] : [{ ...holds, type: 'Ready', status: 'False' }, holds];
}

/** Conditions with their times; one whose status is as before keeps its time. */
export function timed<Type extends string>(
  said: readonly ConditionState<Type>[],
  generation: number,
  before: readonly Pick<Condition, 'type' | 'status' | 'lastTransitionTime'>[],
  now: Date,
): readonly Condition<Type>[] {
  return said.map(({ type, status, reason, message }) => {
    const last = before.find((one) => one.type === type);
    const lastTransitionTime = last?.status === status ? last.lastTransitionTime : utcText(now);
    return { type, status, observedGeneration: generation, lastTransitionTime, reason, message };
  });
}
