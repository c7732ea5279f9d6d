import { type Clock, systemClock } from './clock.ts';

/** Runs a task after a burst of triggers, one run at a time. */
export interface Debounced {
  trigger(): void;
  /** Runs at once, after a run that is under way. */
  now(): Promise<void>;
  /** Triggers by itself after so many milliseconds without another run. */
  refresh(after: number): void;
  /** Ends it; a run under way is waited for. */
  close(): Promise<void>;
}

export interface DebounceTimes {
  /** A run comes when nothing has triggered for so long … (milliseconds) */
  readonly quiet: number;
  /**
   * … or when the first trigger since the last run is so long ago, however many follow: what
   * changes forever delays nothing for longer.
   */
  readonly longest: number;
}

/**
 * The task must not throw: it is the one who knows what to say. What triggers while it runs is one
 * run after it.
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
  /** A run that is to come after the one under way. */
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
