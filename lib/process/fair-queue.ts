/** The task was not run: more are waiting than the queue holds. */
export class QueueFullError extends Error {
  override readonly name = 'QueueFullError';
}

export interface FairQueueOptions {
  /** The most tasks that run at the same time. */
  readonly atOnce: number;
  /** The most tasks that wait. */
  readonly most: number;
}

interface Waiting {
  readonly start: () => void;
  readonly refuse: (error: Error) => void;
}

/**
 * Runs tasks of several sources, a few at a time and the sources by turns: a source with thousands
 * of tasks delays each task of another by one turn. When the queue is full, the newest task of the
 * source with the most waiting tasks is refused.
 */
export class FairQueue {
  readonly #options: FairQueueOptions;
  /** Tasks of each source, the oldest first; the source whose turn is next comes first. */
  readonly #waiting = new Map<string, Waiting[]>();
  /** At index n, the sources of which n tasks wait: the longest is found without a search. */
  readonly #byLength: Set<string>[] = [];
  #longest = 0;
  #count = 0;
  #running = 0;

  constructor(options: FairQueueOptions) {
    this.#options = options;
  }

  /** Rejects with QueueFullError if the task is refused, otherwise as the task does. */
  async run<T>(source: string, task: () => Promise<T>): Promise<T> {
    if (this.#running < this.#options.atOnce) this.#running++;
    else await this.#wait(source);
    try {
      return await task();
    } finally {
      this.#startNext();
    }
  }

  #wait(source: string): Promise<void> {
    const { promise, resolve: start, reject: refuse } = Promise.withResolvers<void>();
    const tasks = this.#waiting.get(source) ?? [];
    tasks.push({ start, refuse });
    this.#waiting.set(source, tasks);
    this.#count++;
    this.#resized(source, tasks.length - 1, tasks.length);
    if (this.#count > this.#options.most) this.#refuseOne();
    return promise;
  }

  /** The task that ended leaves its place to the next one. */
  #startNext(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#running--;
      return;
    }
    const [source, tasks] = next;
    const task = tasks.shift();
    this.#waiting.delete(source);
    if (tasks.length > 0) this.#waiting.set(source, tasks);
    this.#count--;
    this.#resized(source, tasks.length + 1, tasks.length);
    task?.start();
  }

  #refuseOne(): void {
    const [source = ''] = this.#byLength[this.#longest] ?? [];
    const tasks = this.#waiting.get(source) ?? [];
    const task = tasks.pop();
    if (tasks.length === 0) this.#waiting.delete(source);
    this.#count--;
    this.#resized(source, tasks.length + 1, tasks.length);
    task?.refuse(new QueueFullError(`more than ${this.#options.most} requests wait`));
  }

  /**
   * Lengths change by one: when no queue of the longest length is left, this one is the longest.
   */
  #resized(source: string, before: number, now: number): void {
    this.#byLength[before]?.delete(source);
    if (now > 0) {
      this.#byLength[now] ??= new Set();
      this.#byLength[now].add(source);
    }
    if (now > this.#longest) this.#longest = now;
    else if (before === this.#longest && this.#byLength[before]?.size === 0) this.#longest--;
  }
}
