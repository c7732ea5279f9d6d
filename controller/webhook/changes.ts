/** Lets callers wait for another state of the cluster. */
export interface Changes {
  /**
   * Resolves at the next `happened`, at the latest after this time (milliseconds); then releases
   * its timer.
   */
  wait(milliseconds: number): Promise<void>;
  happened(): void;
  /** The number of waiting callers. */
  readonly waiting: number;
}

export function changeSignal(): Changes {
  const ends = new Set<() => void>();
  return {
    wait: (milliseconds) =>
      new Promise((resolve) => {
        const end = (): void => {
          clearTimeout(timer);
          ends.delete(end);
          resolve();
        };
        const timer = setTimeout(end, milliseconds);
        ends.add(end);
      }),
    happened() {
      for (const end of [...ends]) end();
    },
    get waiting() {
      return ends.size;
    },
  };
}
