import { type Clock, systemClock } from './clock.ts';

/** Runs a task once after a burst of triggers, one run at a time. */
export interface Debounced {
  trigger(): void;
  /** Runs at once, or after the run in progress. */
  now(): Promise<void>;
  /** Runs after this many milliseconds without another run. */
  refresh(after: number): void;
  /** Cancels pending runs, and waits for the run in progress. */
  close(): Promise<void>;
}

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
 * The task must not throw; it handles its own errors. Triggers during a run lead to one run after
 * it.
 */
export function debounce(
  task: () => Promise<void>,
  { quiet, longest }: DebounceTimes,
  clock: Clock = systemClock,
): Debounced {
  let first: number | null = null;
  let cancel = (): void => {};
  let cancelRefresh = (): void => {};
  let running: Promise<void> = Promise.resolve();
  /** The run that follows the one in progress. */
  let next: Promise<void> | null = null;
  let closed = false;
  const run = (): Promise<void> => {
    cancel();
    cancelRefresh();
    first = null;
    next ??= running.then(() => {
      next = null;
      return closed ? undefined : task();
    });
    running = next;
    return next;
  };
  return {
    trigger() {
      if (closed) return;
      const now = clock.now();
      first ??= now;
      cancel();
      cancel = clock.after(Math.max(0, Math.min(quiet, first + longest - now)), run);
    },
    now: run,
    refresh(after) {
      cancelRefresh();
      if (!closed) cancelRefresh = clock.after(after, run);
    },
    async close() {
      closed = true;
      cancel();
      cancelRefresh();
      await running;
    },
  };
}
