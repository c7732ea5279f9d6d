import type { Clock } from '../../lib/process/clock.ts';

/** Time that passes when the test says so. */
export interface FakeClock extends Clock {
  /** Milliseconds from now of everything that waits, sorted. */
  waiting(): number[];
  pass(milliseconds: number): void;
}

export function fakeClock(): FakeClock {
  let now = 0;
  const timers = new Set<{ readonly at: number; readonly callback: () => void }>();
  return {
    now: () => now,
    after(milliseconds, callback) {
      const timer = { at: now + milliseconds, callback };
      timers.add(timer);
      return () => void timers.delete(timer);
    },
    waiting: () => [...timers].map(({ at }) => at - now).sort((a, b) => a - b),
    pass(milliseconds) {
      now += milliseconds;
      for (const timer of [...timers].filter(({ at }) => at <= now)) {
        timers.delete(timer);
        timer.callback();
      }
    },
  };
}
