import type { RbacRule } from '../../kubeapi/rbac-rule.ts';
import { FAILURE_REASONS, type FailureReason } from './failure.ts';

/** Events that deserve a line in the log. */
export type WatchNotice = WatchEvent & {
  /** `pods`, `clusternetworkpolicies.nodewall.io`. */
  readonly resource: string;
};

export type WatchEvent =
  | {
      readonly event: 'failed';
      readonly reason: FailureReason;
      readonly error: string;
      /**
       * Failures since data was last received. Reported for the first, whenever their number
       * doubles, and when the reason changes.
       */
      readonly failures: number;
      /** Milliseconds. */
      readonly retryIn: number;
    }
  | { readonly event: 'recovered'; readonly failures: number }
  | { readonly event: 'listed'; readonly objects: number }
  /** The CRD doesn't exist: that is not an error, and it is looked for again. */
  | { readonly event: 'absent' }
  /** A relist found changes that watch events missed. */
  | { readonly event: 'corrected'; readonly corrections: number; readonly objects: readonly string[] };

/** Metrics of one resource, since the start. */
export interface WatchMetrics {
  readonly resource: string;
  readonly state: WatchState;
  /** The number of objects stored now. */
  readonly objects: number;
  readonly lists: number;
  readonly watches: number;
  readonly events: number;
  readonly bookmarks: number;
  /** Changes that watch events missed and a relist found. */
  readonly corrections: number;
  readonly failures: Readonly<Record<FailureReason, number>>;
  /** The time of the last event or bookmark (milliseconds since 1970); null: none yet. */
  readonly lastEvent: number | null;
  /** The right by whose lack the last list or watch failed; null: it did not. */
  readonly lacks: RbacRule | null;
}

/** `absent`: the CRD doesn't exist. `waiting`: in back-off after a failure. */
export type WatchState = 'listing' | 'watching' | 'waiting' | 'absent' | 'closed';

export type WatchCounts = { -readonly [K in keyof WatchMetrics]: WatchMetrics[K] } & {
  readonly failures: Record<FailureReason, number>;
};

export function watchCounts(resource: string): WatchCounts {
  const failures = Object.fromEntries(FAILURE_REASONS.map((reason) => [reason, 0]));
  return {
    resource,
    state: 'listing',
    objects: 0,
    lists: 0,
    watches: 0,
    events: 0,
    bookmarks: 0,
    corrections: 0,
    failures: failures as Record<FailureReason, number>,
    lastEvent: null,
    lacks: null,
  };
}
