/** Time as the program sees it. Tests pass one that moves when they say so. */
export interface Clock {
  /** Monotonic milliseconds. */
  now(): number;
  /** Calls back once, after so many milliseconds; returns a function that cancels it. */
  after(milliseconds: number, callback: () => void): () => void;
}

/** With the time of day, which may jump. */
export interface WallClock extends Clock {
  date(): Date;
}

export const systemClock: WallClock = {
  now: () => performance.now(),
  after(milliseconds, callback) {
    const timer = setTimeout(callback, milliseconds);
    return () => clearTimeout(timer);
  },
  date: () => new Date(),
};
