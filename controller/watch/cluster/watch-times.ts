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
