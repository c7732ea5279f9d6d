import type { Clock } from '../agent/apply/enforcer.ts';

/** Monotonic milliseconds, and calls that come later. */
export const systemClock: Clock = {
  now: () => performance.now(),
  after(milliseconds, callback) {
    const timer = setTimeout(callback, milliseconds);
    return () => clearTimeout(timer);
  },
};
