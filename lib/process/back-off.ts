import type { Clock } from './clock.ts';
import { Lane } from './lane.ts';

export interface BackOffOptions {
  /** The first wait (milliseconds), which doubles with each that follows … */
  readonly first: number;
  /** … up to this one (milliseconds). */
  readonly longest: number;
  /**
   * Returns numbers from 0 to 1: each wait is then a random half to whole of its length, so that
   * many clients don't retry at the same time. Absent: waits have their whole length.
   */
  readonly random?: () => number;
}

/** Keeps the power finite for any number of failures; the longest wait is reached earlier. */
const MOST_DOUBLINGS = 60;

/** The wait (milliseconds) after `failures` failures in a row, at least one. */
export function waitAfter(failures: number, { first, longest, random }: BackOffOptions): number {
  const wait = Math.min(longest, first * 2 ** Math.min(failures - 1, MOST_DOUBLINGS));
  return random === undefined ? wait : wait * (0.5 + random() / 2);
}

/** The waits between successive attempts. */
export class BackOff {
  readonly #options: BackOffOptions;
  #failures = 0;

  constructor(options: BackOffOptions) {
    this.#options = options;
  }

  /** Counts a failure and returns the wait after it (milliseconds). */
  next(): number {
    return waitAfter(++this.#failures, this.#options);
  }

  /** Called after a success: the next wait is the first one again. */
  reset(): void {
    this.#failures = 0;
  }
}

interface RetriedOptions<Work> {
  readonly clock: Clock;
  readonly waits: BackOffOptions;
  readonly run: (work: Work) => Promise<void>;
  /** Makes one of both; `later` was asked for after `earlier`. */
  readonly merge: (earlier: Work, later: Work) => Work;
  /** Called after each failure; `retryIn` is in milliseconds. */
  readonly failed: (error: Error, retryIn: number) => void;
}

/**
 * Work that is done until it succeeds, one run at a time: what is asked for meanwhile is done in
 * the next run, together, and what failed is done again with back-off. So `run` may do the same
 * work twice.
 */
export class Retried<Work> {
  readonly #options: RetriedOptions<Work>;
  readonly #waits: BackOff;
  readonly #lane = new Lane();
  #pending: { readonly work: Work } | null = null;
  #cancel = (): void => {};
  #isClosed = false;

  constructor(options: RetriedOptions<Work>) {
    this.#options = options;
    this.#waits = new BackOff(options.waits);
  }

  /** Resolves after a run that began after the call, also if it failed. Never rejects. */
  add(work: Work): Promise<void> {
    this.#keep((pending) => (pending === null ? work : this.#options.merge(pending.work, work)));
    return this.#lane.run(() => this.#try());
  }

  /** Nothing begins any more: what waits is left out. Resolves after the run in progress. */
  close(): Promise<void> {
    this.#isClosed = true;
    this.#pending = null;
    this.#cancel();
    return this.#lane.run(async () => {});
  }

  #keep(next: (pending: { readonly work: Work } | null) => Work): void {
    if (!this.#isClosed) this.#pending = { work: next(this.#pending) };
  }

  async #try(): Promise<void> {
    if (this.#pending === null) return;
    const { work } = this.#pending;
    const { clock, run, merge, failed } = this.#options;
    this.#pending = null;
    this.#cancel();
    try {
      await run(work);
      this.#waits.reset();
    } catch (error) {
      this.#keep((later) => (later === null ? work : merge(work, later.work)));
      if (this.#isClosed) return;
      const wait = this.#waits.next();
      this.#cancel = clock.after(wait, () => void this.#lane.run(() => this.#try()));
      failed(error as Error, wait);
    }
  }
}

/** A socket, a file, a subscription. */
export interface Closable {
  close(): Promise<void> | void;
}

interface KeepOpenOptions {
  /**
   * Opens it, and calls `failed` once it is of no more use; a throw is such a failure, too.
   * `isAgain`: it failed before, so that events may have been missed.
   */
  open(failed: (error: Error) => void, isAgain: boolean): Closable;
  readonly clock: Clock;
  /** Called after each failure; `retryIn` is in milliseconds. */
  failed(error: Error, retryIn: number): void;
}

/** Milliseconds: the first wait, doubled with each failure that soon follows another. */
const FIRST = 1_000;
const LONGEST = 60_000;

/** Keeps something open that may fail: opens it again with back-off until it is closed. */
export function keepOpen({ open, clock, failed }: KeepOpenOptions): { close(): Promise<void> } {
  const backOff = new BackOff({ first: FIRST, longest: LONGEST });
  let current: Closable | null = null;
  let cancel = (): void => {};
  let isClosed = false;

  function start(isAgain: boolean): void {
    const opened = clock.now();
    let isOver = false;
    const over = (error: Error): void => {
      if (isOver || isClosed) return;
      isOver = true;
      void current?.close();
      current = null;
      if (clock.now() - opened >= LONGEST) backOff.reset();
      const wait = backOff.next();
      cancel = clock.after(wait, () => start(true));
      failed(error, wait);
    };
    try {
      const made = open(over, isAgain);
      // It may have failed before it was returned.
      if (isOver) void made.close();
      else current = made;
    } catch (error) {
      over(error as Error);
    }
  }
  start(false);
  return {
    async close() {
      isClosed = true;
      cancel();
      await current?.close();
    },
  };
}
