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
