import { BackOff } from './back-off.ts';
import type { Clock } from './clock.ts';

/** A socket, a file, a subscription. */
export interface Closable {
  close(): Promise<void> | void;
}

export interface KeepOpenOptions {
  /**
   * Opens it, and calls `failed` once it is of no more use; a throw is such a failure, too.
   * `isAgain`: it failed before, so that events may have been missed.
   */
  open(failed: (error: Error) => void, isAgain: boolean): Closable;
  readonly clock: Clock;
  /** Called after each failure; `retryIn` is in milliseconds. */
  failed(error: Error, retryIn: number): void;
}

/** Milliseconds: the first wait, doubled with each failure that soon follows another. */
const FIRST = 1_000;
const LONGEST = 60_000;

/** Keeps something open that may fail: opens it again with back-off until it is closed. */
export function keepOpen({ open, clock, failed }: KeepOpenOptions): { close(): Promise<void> } {
  const backOff = new BackOff({ first: FIRST, longest: LONGEST });
  let current: Closable | null = null;
  let cancel = (): void => {};
  let isClosed = false;

  function start(isAgain: boolean): void {
    const opened = clock.now();
    let isOver = false;
    const over = (error: Error): void => {
      if (isOver || isClosed) return;
      isOver = true;
      void current?.close();
      current = null;
      if (clock.now() - opened >= LONGEST) backOff.reset();
      const wait = backOff.next();
      cancel = clock.after(wait, () => start(true));
      failed(error, wait);
    };
    try {
      const made = open(over, isAgain);
      // It may have failed before it was returned.
      if (isOver) void made.close();
      else current = made;
    } catch (error) {
      over(error as Error);
    }
  }
  start(false);
  return {
    async close() {
      isClosed = true;
      cancel();
      await current?.close();
    },
  };
}
