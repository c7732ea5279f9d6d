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

/** Resolves after so many milliseconds, or as soon as the signal aborts. Never rejects. */
export function pause(clock: Clock, milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      cancel();
      signal.removeEventListener('abort', end);
      resolve();
    };
    const cancel = clock.after(milliseconds, end);
    signal.addEventListener('abort', end);
    if (signal.aborted) end();
  });
}

export interface CancellableSleep {
  /** Resolves after this many milliseconds, or on `wake`. One call at a time. */
  wait(milliseconds: number): Promise<void>;
  /** Ends the wait in progress. */
  wake(): void;
}

/** A cancellable sleep, for polling loops that must be able to end at once. */
export function cancellableSleep(
  after: (milliseconds: number, callback: () => void) => () => void,
): CancellableSleep {
  let wake = (): void => {};
  return {
    wait: (milliseconds) =>
      new Promise((resolve) => {
        const cancel = after(milliseconds, resolve);
        wake = () => {
          cancel();
          resolve();
        };
      }),
    wake: () => wake(),
  };
}

/** A meta/v1 MicroTime. */
export function toMicroTime(date: Date): string {
  return date.toISOString().replace('Z', '000Z');
}
