import type { Clock } from '../agent/apply/enforcer.ts';

/** Monotonic milliseconds, calls that come later, and the time of day. */
export const systemClock = {
  now: () => performance.now(),
  after(milliseconds: number, callback: () => void) {
    const timer = setTimeout(callback, milliseconds);
    return () => clearTimeout(timer);
  },
  date: () => new Date(),
} satisfies Clock & { date(): Date };
