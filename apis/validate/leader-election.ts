import { DEFAULT_CONFIG } from '../config.ts';
import type { FieldMap } from '../schema/json-schema.ts';
import type { Findings } from './problem.ts';

/**
 * Checks that a leader has time for another attempt before it must cease, and ceases before another
 * one leads.
 */
export function checkLeaderElection(raw: FieldMap, found: Findings): void {
  const times = { ...DEFAULT_CONFIG.leaderElection, ...raw };
  for (const [shorter, longer] of ORDER) {
    const [short, long] = [times[shorter], times[longer]];
    if (typeof short !== 'number' || typeof long !== 'number' || short < long) continue;
    const message =
      shorter in raw
        ? `${short} must be below ${longer}, which is ${long}`
        : `${long} must be above ${shorter}, which is ${short}`;
    found.error(['leaderElection', shorter in raw ? shorter : longer], message);
  }
}

const ORDER = [
  ['renewDeadline', 'leaseDuration'],
  ['retryPeriod', 'renewDeadline'],
] as const;
