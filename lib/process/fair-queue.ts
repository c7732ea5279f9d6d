import { LRUCache } from 'lru-cache';

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

interface Task {
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
    this.#waiting.add({ start, end, run });
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

/** A rate limiter by name (token buckets): a burst, then a number per second. */
export interface RateLimiter {
  /** Returns false if the name has exceeded its rate. */
  allows(name: string): boolean;
  /** Milliseconds until `take` returns true. */
  wait(name: string): number;
}

/** The most names that are remembered; those used longest ago begin again. */
const MOST_NAMES = 50_000;

/** @param options `now` is in milliseconds */
export function rateLimiter(options: {
  readonly now: () => number;
  readonly burst: number;
  readonly perSecond: number;
}): RateLimiter {
  const { now, burst, perSecond } = options;
  const buckets = new LRUCache<string, { readonly level: number; readonly at: number }>({ max: MOST_NAMES });
  const levelOf = (name: string, time: number): number => {
    const { level, at } = buckets.get(name) ?? { level: burst, at: time };
    return Math.min(burst, level + (perSecond * (time - at)) / 1000);
  };
  return {
    allows(name) {
      const time = now();
      const level = levelOf(name, time);
      buckets.set(name, { level: level < 1 ? level : level - 1, at: time });
      return level >= 1;
    },
    wait: (name) => Math.ceil((Math.max(0, 1 - levelOf(name, now())) * 1000) / perSecond),
  };
}
