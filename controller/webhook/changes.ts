/** Who waits for the cluster to be another one. */
export interface Changes {
  /**
   * Resolves at the next `happened`, at the latest after so many milliseconds; then nothing is left
   * of it.
   */
  wait(milliseconds: number): Promise<void>;
  happened(): void;
  /** How many wait. */
  readonly waiting: number;
}

export function changes(): Changes {
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
