export interface BackOffOptions {
  /** Milliseconds: the first wait, which doubles with each that follows … */
  readonly first: number;
  /** … up to this one. */
  readonly longest: number;
  /**
   * Numbers from 0 to 1: each wait is then a random half to whole of its turn, so that many who
   * wait don't come back at once. Absent: the whole.
   */
  readonly random?: () => number;
}

/** Beyond any wait; a number of failures has no end. */
const MOST_DOUBLINGS = 60;

/** How long to wait after so many failures in a row, one or more (milliseconds). */
export function waitAfter(failures: number, { first, longest, random }: BackOffOptions): number {
  const wait = Math.min(longest, first * 2 ** Math.min(failures - 1, MOST_DOUBLINGS));
  return random === undefined ? wait : wait * (0.5 + random() / 2);
}

/** The waits of one who tries again and again. */
export class BackOff {
  readonly #options: BackOffOptions;
  #failures = 0;

  constructor(options: BackOffOptions) {
    this.#options = options;
  }

  /** One more failure: how long to wait after it (milliseconds). */
  next(): number {
    return waitAfter(++this.#failures, this.#options);
  }

  /** It succeeded. */
  reset(): void {
    this.#failures = 0;
  }
}
