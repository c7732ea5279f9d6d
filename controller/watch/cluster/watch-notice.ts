import { FAILURE_REASONS, type FailureReason } from './failure.ts';

/** What is worth a line in the log. */
export type WatchNotice = {
  /** `pods`, `clusternetworkpolicies.nodewall.io`. */
  readonly resource: string;
} & (
  | {
      readonly event: 'failed';
      readonly reason: FailureReason;
      readonly message: string;
      /**
       * Since anything was heard last. Told of the first, and whenever their number doubles or the
       * reason is another.
       */
      readonly failures: number;
      /** Milliseconds. */
      readonly retryIn: number;
    }
  | { readonly event: 'recovered'; readonly failures: number }
  | { readonly event: 'listed'; readonly objects: number }
  /** Its CRD is not there: that is no error, and looked for again. */
  | { readonly event: 'absent' }
  /** A list said otherwise than the events had: something was missed. */
  | { readonly event: 'corrected'; readonly corrections: number; readonly objects: readonly string[] }
);

/** Of one resource, since the start. */
export interface WatchMetrics {
  readonly resource: string;
  readonly state: WatchState;
  /** How many are kept now. */
  readonly objects: number;
  readonly lists: number;
  readonly watches: number;
  readonly events: number;
  readonly bookmarks: number;
  /** Changes that events should have told and a later list did. */
  readonly corrections: number;
  readonly failures: Readonly<Record<FailureReason, number>>;
  /** When the last event or bookmark came: milliseconds since 1970; null: none yet. */
  readonly lastEvent: number | null;
}

/** `absent`: the CRD is not there. `waiting`: after a failure. */
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
  };
}
