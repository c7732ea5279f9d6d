/** The program's source of time. Tests pass one that they advance themselves. */
export interface Clock {
  /** Monotonic milliseconds. */
  now(): number;
  /**
   * Calls back once, after this many milliseconds, or at once if that time is over; returns a
   * function that cancels it.
   */
  after(milliseconds: number, callback: () => void): () => void;
}

/** A clock that also has the time of day, which may jump. */
export interface WallClock extends Clock {
  date(): Date;
}

export const systemClock: WallClock = {
  now: () => performance.now(),
  after(milliseconds, callback) {
    const timer = setTimeout(callback, Math.max(0, milliseconds));
    return () => clearTimeout(timer);
  },
  date: () => new Date(),
};

/** A time of day to the second, as Kubernetes writes it: 2026-11-29T03:04:05Z. */
export function utcText(time: Date | number): string {
  return `${new Date(time).toISOString().slice(0, 19)}Z`;
}
