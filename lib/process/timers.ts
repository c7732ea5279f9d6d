import { type Clock, systemClock } from './clock.ts';

export interface DebounceTimes {
  /** A run starts when there was no trigger for this time (milliseconds) … */
  readonly quiet: number;
  /**
   * … or when the first trigger since the last run is this long ago (milliseconds), so that
   * continuous triggers can't delay it further.
   */
  readonly longest: number;
}

/**
 * Runs a task once after a burst of triggers, one run at a time: triggers during a run lead to one
 * run after it. The task must not throw; it handles its own errors.
 */
export class Debounce {
  readonly #task: () => Promise<void>;
  readonly #times: DebounceTimes;
  readonly #clock: Clock;
  #first: number | null = null;
  #cancel = (): void => {};
  #cancelRefresh = (): void => {};
  #running: Promise<void> = Promise.resolve();
  /** The run that follows the one in progress. */
  #next: Promise<void> | null = null;
  #closed = false;

  constructor(task: () => Promise<void>, times: DebounceTimes, clock: Clock = systemClock) {
    this.#task = task;
    this.#times = times;
    this.#clock = clock;
  }

  trigger(): void {
    if (this.#closed) return;
    const now = this.#clock.now();
    const { quiet, longest } = this.#times;
    this.#first ??= now;
    this.#cancel();
    const wait = Math.max(0, Math.min(quiet, this.#first + longest - now));
    this.#cancel = this.#clock.after(wait, () => this.now());
  }

  /** Runs at once, or after the run in progress. */
  now(): Promise<void> {
    this.#cancel();
    this.#cancelRefresh();
    this.#first = null;
    this.#next ??= this.#running.then(() => {
      this.#next = null;
      return this.#closed ? undefined : this.#task();
    });
    this.#running = this.#next;
    return this.#next;
  }

  /** Runs after this many milliseconds without another run. */
  refresh(after: number): void {
    this.#cancelRefresh();
    if (!this.#closed) this.#cancelRefresh = this.#clock.after(after, () => this.now());
  }

  /** Cancels pending runs, and waits for the run in progress. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#cancel();
    this.#cancelRefresh();
    await this.#running;
  }
}

export interface Pace {
  request(): void;
  /** Makes a pending call now. */
  flush(): void;
  close(): void;
}

/**
 * Throttle: calls at once, then at most once per interval (milliseconds); the last request is never
 * lost.
 */
export function pace(clock: Clock, interval: number, call: () => void): Pace {
  let last = Number.NEGATIVE_INFINITY;
  let cancel: (() => void) | null = null;

  function now(): void {
    cancel?.();
    cancel = null;
    last = clock.now();
    call();
  }
  return {
    request(): void {
      if (cancel !== null) return;
      const wait = last + interval - clock.now();
      if (wait <= 0) now();
      else cancel = clock.after(wait, now);
    },
    flush(): void {
      if (cancel !== null) now();
    },
    close(): void {
      cancel?.();
      cancel = null;
    },
  };
}

/** A time limit that can be restarted. */
export interface Watchdog {
  /** Aborted when the time is over, on `end`, or when the signal above is aborted. */
  readonly signal: AbortSignal;
  /**
   * Restarts the time limit, with another length if one is given (milliseconds). No effect once the
   * time is over.
   */
  restart(milliseconds?: number): void;
  isOver(): boolean;
  /** Aborts before the time is over. */
  end(): void;
  /** Stops the timer and stops following the signal above. */
  clear(): void;
}

/** Starts a time limit (milliseconds) that also ends when the signal `above` is aborted. */
export function watchdog(milliseconds: number, above: AbortSignal): Watchdog {
  const controller = new AbortController();
  let over = false;
  const abort = (): void => controller.abort();
  const expire = (): void => {
    over = true;
    abort();
  };
  let timer = setTimeout(expire, milliseconds);
  above.addEventListener('abort', abort, { once: true });
  if (above.aborted) abort();
  return {
    signal: controller.signal,
    restart(other) {
      if (over) return;
      if (other === undefined) {
        timer.refresh();
        return;
      }
      clearTimeout(timer);
      timer = setTimeout(expire, other);
    },
    isOver: () => over,
    end: abort,
    clear() {
      clearTimeout(timer);
      above.removeEventListener('abort', abort);
    },
  };
}
