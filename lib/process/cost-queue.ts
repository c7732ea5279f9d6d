interface Task {
  readonly source: string;
  /** The queue's clock when its turn begins and ends, if each source had all it asks for. */
  readonly start: number;
  readonly end: number;
  readonly run: () => void;
}

/**
 * Runs tasks one at a time, by what they cost: first the one that ends first if all sources ran
 * side by side (weighted fair queuing). A small task waits for the one in progress and for smaller
 * ones, whatever another source has waiting.
 */
export class CostQueue {
  readonly #waiting = new Set<Task>();
  /** The end of the last task of each source; only of those that are ahead of the clock. */
  readonly #ends = new Map<string, number>();
  readonly #least: number;
  #clock = 0;
  #isRunning = false;

  /**
   * @param least what any task costs, besides its own cost: without it, a source's tasks that cost
   * nothing would always be first
   */
  constructor(least = 0) {
    this.#least = least;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  async run<T>(source: string, cost: number, task: () => Promise<T>): Promise<T> {
    const start = Math.max(this.#clock, this.#ends.get(source) ?? 0);
    const { promise, resolve: run } = Promise.withResolvers<void>();
    const end = start + this.#least + cost;
    this.#ends.set(source, end);
    this.#waiting.add({ source, start, end, run });
    if (!this.#isRunning) this.#startNext();
    await promise;
    try {
      return await task();
    } finally {
      this.#startNext();
    }
  }

  #startNext(): void {
    let next: Task | null = null;
    for (const task of this.#waiting) if (next === null || task.end < next.end) next = task;
    this.#isRunning = next !== null;
    if (next === null) {
      this.#ends.clear();
      return;
    }
    this.#waiting.delete(next);
    this.#clock = Math.max(this.#clock, next.start);
    for (const [source, end] of this.#ends) if (end <= this.#clock) this.#ends.delete(source);
    next.run();
  }
}
