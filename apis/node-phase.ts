import type { NodeReport } from './node-report.ts';

export const NODE_PHASES = [
  /** All rules that were sent to it are in force. */
  'Enforced',
  /** Not yet. */
  'Pending',
  /** Rules that it could not enforce; the version before is in force. */
  'Failing',
  /** It cannot apply the controller's view; the rules before stay in force. */
  'NotFollowing',
  /** Somebody switched it off (`nodewall off`). */
  'Off',
  /** The feature gate is off. */
  'Disabled',
  /** Its agent has not reported for `SILENCE`; the last rules are in force. */
  'Silent',
  /** Its agent has never reported. */
  'Unknown',
] as const;
export type NodePhase = (typeof NODE_PHASES)[number];

/**
 * Milliseconds after the last report from which a node is silent; agents report every 33 to 66 s.
 */
export const SILENCE = 180_000;

/** @param now milliseconds since 1970 */
export function nodePhase(report: NodeReport | null, now: number): NodePhase {
  if (report === null) return 'Unknown';
  const { time, enabled, enforced, revision, failing, off, viewError } = report;
  if (now - Date.parse(time) > SILENCE) return 'Silent';
  if (off !== undefined) return 'Off';
  if (!enabled) return 'Disabled';
  if (viewError !== undefined) return 'NotFollowing';
  if (failing.length > 0) return 'Failing';
  return enforced !== null && enforced === revision ? 'Enforced' : 'Pending';
}
