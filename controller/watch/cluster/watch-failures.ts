import { waitAfter } from '../../../lib/process/back-off.ts';
import { type RbacRule, rbacRule } from '../../kubeapi/kube-error.ts';
import { groupVersionPath, type Resource } from './resources.ts';
import { FAILURE_REASONS, type FailureReason, type WatchFailure } from './transport.ts';

/**
 * The longest wait that a server's Retry-After is granted (milliseconds): as a date it is compared
 * with a clock that may be wrong.
 */
const MOST_ASKED = 60_000;
/**
 * After this many failed watches without any data from the same version, a list is needed: the
 * version itself may be the cause.
 */
const MOST_FRUITLESS = 2;

interface WatchFailuresOptions {
  readonly resource: Resource;
  readonly times: WatchTimes;
  /** Returns numbers from 0 to 1. */
  readonly random: () => number;
  readonly counts: WatchCounts;
  readonly notice: (event: WatchEvent) => void;
}

/** The failures of one resource since the last data was received: counted, reported, backed off. */
export class WatchFailures {
  readonly #options: WatchFailuresOptions;
  #count = 0;
  /** The number of the latest that are of one kind: all without a connection, or all with one. */
  #alike = 0;
  #wasUnreachable = false;
  #lastReason = '';
  #fruitless = 0;

  constructor(options: WatchFailuresOptions) {
    this.#options = options;
  }

  /** Data was received. */
  end(): void {
    if (this.#count > 0) this.#options.notice({ event: 'recovered', failures: this.#count });
    this.#count = 0;
    this.#lastReason = '';
    this.#fruitless = 0;
  }

  /** Whether the watch can't be resumed from the version before this failure. */
  needsList({ reason }: WatchFailure): boolean {
    if (['expired', 'disordered', 'missing', 'internal'].includes(reason)) return true;
    if (reason === 'malformed' || reason === 'serverError') this.#fruitless++;
    return this.#fruitless >= MOST_FRUITLESS;
  }

  /**
   * Returns the wait until the next attempt (milliseconds).
   * @param verb of the request that failed; absent: the right to it is not in question
   */
  add(failure: WatchFailure, verb?: 'list' | 'watch'): number {
    const { reason, message: error, retryAfter } = failure;
    const { resource, times, random, counts, notice } = this.#options;
    if (verb !== undefined) counts.lacks = lackedRight(resource, failure, verb);
    const isUnreachable = reason === 'unreachable';
    // A server that has just become reachable starts with the shortest back-off.
    this.#alike = this.#count > 0 && isUnreachable === this.#wasUnreachable ? this.#alike + 1 : 1;
    this.#wasUnreachable = isUnreachable;
    this.#count++;
    counts.failures[reason]++;
    const { firstWait: first, longestWait, longestReconnect } = times;
    const longest = isUnreachable ? Math.min(longestReconnect, longestWait) : longestWait;
    // The first `expired` needs a list, not a longer wait.
    const turn = reason === 'expired' && this.#lastReason !== 'expired' ? 1 : this.#alike;
    const wait = Math.max(
      Math.round(waitAfter(turn, { first, longest, random })),
      Math.min(retryAfter ?? 0, MOST_ASKED),
    );
    if (reason !== this.#lastReason || Number.isInteger(Math.log2(this.#count))) {
      notice({ event: 'failed', reason, error, failures: this.#count, retryIn: wait });
    }
    this.#lastReason = reason;
    return wait;
  }
}

/** The right without which a list or a watch failed; null: the failure had another reason. */
function lackedRight(resource: Resource, { reason }: WatchFailure, verb: 'list' | 'watch'): RbacRule | null {
  const rule = rbacRule('GET', `${groupVersionPath(resource)}/${resource.plural}`);
  return reason === 'forbidden' && rule !== null ? { ...rule, verbs: [verb] } : null;
}

/**
 * All times are in milliseconds. From a pair a random value between both is chosen, so that
 * resources and replicas don't act at the same time.
 */
export interface WatchTimes {
  /** A request is aborted after this time without a response, or without more data. */
  readonly answer: number;
  /**
   * A watch is aborted after this time without an event or bookmark, and resumed over a new
   * connection. The API server sends a bookmark about every minute.
   */
  readonly idle: number;
  /**
   * The watch's timeoutSeconds: the server ends it after this time, so that load is balanced over
   * its replicas again.
   */
  readonly watch: readonly [number, number];
  /** After a failure: the first wait, doubled with each further failure … */
  readonly firstWait: number;
  /** … up to this one. Half of each wait is random. */
  readonly longestWait: number;
  /**
   * … or up to this one while there is no connection: an attempt then costs the server nothing, and
   * everything depends on the first that succeeds.
   */
  readonly longestReconnect: number;
  /** A watch counts as up to date this long after it was opened. */
  readonly catchUp: number;
  /** Interval between look-ups of a missing CRD. */
  readonly absent: number;
  /**
   * The time that a CRD which had objects must be missing before its objects are removed. Deleting
   * a CRD first deletes its objects, each with an event; but an API server that starts or is
   * restored may lack the CRD for a while, and without policies every node would be open.
   */
  readonly absence: number;
  /** Interval of relists that are compared with the watch. */
  readonly relist: readonly [number, number];
  /** The time that watch events have to catch up with such a list. */
  readonly overlap: number;
  /**
   * The time that events and bookmarks have to show that a watch is not behind; after it, the
   * resource is listed again.
   */
  readonly proof: number;
}

export const WATCH_TIMES: WatchTimes = {
  answer: 30_000,
  idle: 150_000,
  watch: [300_000, 600_000],
  firstWait: 200,
  longestWait: 10_000,
  longestReconnect: 1_000,
  catchUp: 1_000,
  absent: 5_000,
  absence: 60_000,
  relist: [900_000, 1_800_000],
  overlap: 10_000,
  proof: 300,
};

/**
 * A random number between both.
 * @param random returns numbers from 0 to 1
 */
export function between([least, most]: readonly [number, number], random: () => number): number {
  return Math.round(least + (most - least) * random());
}

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
type WatchState = 'listing' | 'watching' | 'waiting' | 'absent' | 'closed';

type WatchCounts = { -readonly [K in keyof WatchMetrics]: WatchMetrics[K] } & {
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
