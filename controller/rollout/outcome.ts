import type { NodeReport } from '../../apis/stream.ts';

/**
 * The outcome of a policy's version on a node. `silent`: its agent does not report, or was switched
 * off by hand; a rollout does not wait for it.
 */
export type Outcome = 'pending' | 'confirmed' | 'failed' | 'silent';

/** Facts about a node, beside its last report. */
export interface NodeFacts {
  /** Null: it has not reported. */
  readonly report: NodeReport | null;
  /** Whether too much time has passed without a report. */
  readonly isSilent: boolean;
  /** Whether the revision that it enforces has the version. */
  readonly isCurrent: boolean;
  /** Whether it reports that it cannot enforce a rule of the version. */
  readonly isFailing: boolean;
}

/** The only function that says what a report means for a rollout. */
export function outcomeOf({ report, isSilent, isCurrent, isFailing }: NodeFacts): Outcome {
  if (isSilent || report?.off !== undefined) return 'silent';
  if (report === null) return 'pending';
  if (isFailing || report.viewError !== undefined) return 'failed';
  return isCurrent && report.enabled ? 'confirmed' : 'pending';
}
