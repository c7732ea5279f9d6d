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
