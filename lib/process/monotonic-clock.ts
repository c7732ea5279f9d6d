import type { Clock } from './clock.ts';

/**
 * CLOCK_MONOTONIC: the same in all threads and processes of a machine, which performance.now() is
 * not.
 */
export const monotonicClock: Clock = {
  now: () => Number(process.hrtime.bigint()) / 1e6,
  after(milliseconds, callback) {
    const timer = setTimeout(callback, Math.max(0, milliseconds));
    return () => clearTimeout(timer);
  },
};
