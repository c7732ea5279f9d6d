import type { Clock } from './clock.ts';

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
