import { BackOff } from '../../../lib/process/back-off.ts';
import { type CancellableSleep, type Clock, cancellableSleep } from '../../../lib/process/clock.ts';

export interface RepeatedCheckOptions {
  /** Writes what third parties may have changed or deleted. */
  readonly check: () => Promise<unknown>;
  /** Called after a failure; it is tried again. */
  readonly failed: (error: Error) => void;
  readonly clock: Clock;
}

/** Interval between checks (milliseconds): another replica may have advanced the CA. */
const LOOK = 600_000;
/**
 * The least time between two checks (milliseconds), however often third parties write the same
 * fields.
 */
const LEAST = 1_000;
const FIRST_RETRY = 1_000;

/** Repeats a check every ten minutes, and when something has changed. */
export class RepeatedCheck {
  readonly #options: RepeatedCheckOptions;
  readonly #pause: CancellableSleep;
  #isClosed = false;
  #checkedAt = Number.NEGATIVE_INFINITY;
  /** A check was requested since the last one began. */
  #isAsked = false;
  #cancelSoon = (): void => {};
  #running: Promise<void> | null = null;

  constructor(options: RepeatedCheckOptions) {
    this.#options = options;
    this.#pause = cancellableSleep(options.clock.after);
  }

  /** Makes the first check at once; resolves when it is closed. */
  start(): Promise<void> {
    if (this.#isClosed) return Promise.resolve();
    this.#running ??= this.#run();
    return this.#running;
  }

  /** Checks as soon as it may, once it was started. */
  checkNow(): void {
    if (this.#isClosed || this.#running === null) return;
    const { clock } = this.#options;
    this.#isAsked = true;
    this.#cancelSoon();
    this.#cancelSoon = clock.after(Math.max(0, this.#checkedAt + LEAST - clock.now()), this.#pause.wake);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelSoon();
    this.#pause.wake();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { check, failed, clock } = this.#options;
    const retries = new BackOff({ first: FIRST_RETRY, longest: LOOK });
    while (!this.#isClosed) {
      let wait = LOOK;
      this.#isAsked = false;
      this.#checkedAt = clock.now();
      try {
        await check();
        retries.reset();
      } catch (error) {
        failed(error as Error);
        wait = retries.next();
      }
      if (!this.#isClosed) await this.#pause.wait(this.#isAsked ? LEAST : wait);
    }
  }
}
