export interface Waiter {
  /** Until so many milliseconds are over, or `wake` is called. One call at a time. */
  wait(milliseconds: number): Promise<void>;
  /** Ends the wait that is under way. */
  wake(): void;
}

/** For loops that look again some time, and are to end at once. */
export function waiter(after: (milliseconds: number, callback: () => void) => () => void): Waiter {
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
