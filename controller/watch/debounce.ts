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

/** The task must not throw: it is the one who knows what to say. `quiet` and `longest` in milliseconds. */
export function debounce(
  task: () => Promise<void>,
  { quiet, longest }: { readonly quiet: number; readonly longest: number },
): Debounced {
  let first: number | null = null;
  let timer: NodeJS.Timeout | undefined;
  let later: NodeJS.Timeout | undefined;
  let running: Promise<void> = Promise.resolve();
  let closed = false;
  const run = (): Promise<void> => {
    clearTimeout(timer);
    clearTimeout(later);
    first = null;
    running = running.then(() => (closed ? undefined : task()));
    return running;
  };
  return {
    trigger() {
      if (closed) return;
      const now = performance.now();
      first ??= now;
      clearTimeout(timer);
      timer = setTimeout(run, Math.max(0, Math.min(quiet, first + longest - now)));
    },
    now: run,
    refresh(after) {
      clearTimeout(later);
      if (!closed) later = setTimeout(run, after);
    },
    async close() {
      closed = true;
      clearTimeout(timer);
      clearTimeout(later);
      await running;
    },
  };
}
