/**
 * All in milliseconds; pairs are drawn from evenly, so that neither resources nor replicas do the
 * same at once.
 */
export interface WatchTimes {
  /** Without an answer, or more of one, a request is given up. */
  readonly answer: number;
  /**
   * Without an event or bookmark a watch is given up and goes on over a new connection. The API
   * server sends a bookmark about every minute.
   */
  readonly idle: number;
  /** The server is asked to end a watch after this time: load spreads over its replicas again. */
  readonly watch: readonly [number, number];
  /** After a failure: the first wait, doubled with each failure that follows … */
  readonly firstWait: number;
  /** … up to this one. Half of each wait is left to chance. */
  readonly longestWait: number;
  /**
   * … or to this one as long as there is no connection: a try then costs nobody anything, and
   * everything waits for the first that succeeds.
   */
  readonly longestReconnect: number;
  /** So long after it began, a watch is taken to have told what it began with. */
  readonly catchUp: number;
  /** How often a CRD that isn't there is looked for. */
  readonly absent: number;
  /**
   * So long a CRD that had objects must be gone before these are: deleting it deletes them first,
   * each by an event. An API server that starts or is restored may not know it for a while, and
   * without policies every node is open.
   */
  readonly absence: number;
  /** How often a list is compared with what the events have told. */
  readonly relist: readonly [number, number];
  /** How long after that list the events may take to tell the same. */
  readonly overlap: number;
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
};

/** `random` gives numbers from 0 to 1. */
export function between([least, most]: readonly [number, number], random: () => number): number {
  return Math.round(least + (most - least) * random());
}
