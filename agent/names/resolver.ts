import { BackOff } from '../../lib/process/back-off.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Lookup } from './lookup.ts';
import { clampTTL, type NameTimes } from './name-table.ts';
import { type Resolution, shortestTTL } from './resolution.ts';

export interface ResolverParts {
  readonly lookup: Lookup;
  readonly clock: Clock;
  readonly times: NameTimes;
  /** Returns a number 0 ≤ x < 1. */
  readonly random: () => number;
  resolved(name: string, resolution: Resolution): void;
}

/** Resolves names repeatedly. */
export interface RunningResolver {
  /** Sets the names to resolve from now on; a new one is resolved at once. */
  want(names: readonly string[]): void;
  /** Resolves once every name has been asked for, successfully or not. */
  settled(): Promise<void>;
  close(): void;
}

/** The most names resolved at the same time. */
const CONCURRENCY = 100;
/** Names that are due within this time share one wake-up (milliseconds). */
const TICK = 100;
/** Wait after a failure (milliseconds), doubled with each further failure. */
const FIRST_RETRY = 5_000;
const LAST_RETRY = 60_000;
/** The share by which waits vary, so that names resolved together don't stay together. */
const JITTER = 0.1;

interface Task {
  due: number;
  isRunning: boolean;
  wasAsked: boolean;
  readonly retries: BackOff;
}

/**
 * Resolves each name again when its shortest TTL has ended, within the configured bounds; after a
 * failure with back-off.
 */
export function resolver({ lookup, clock, times, random, resolved }: ResolverParts): RunningResolver {
  const tasks = new Map<string, Task>();
  let waiting: (() => void)[] = [];
  let running = 0;
  let cancel: (() => void) | null = null;
  let closed = false;

  function wait(resolution: Resolution, task: Task): number {
    const ttl = shortestTTL(resolution);
    const early = JITTER * random();
    if (ttl === null) return task.retries.next() * (1 - early);
    task.retries.reset();
    const milliseconds = 1000 * clampTTL(ttl, times);
    const late = milliseconds * (1 + early);
    return late <= 1000 * times.maximumTTL ? late : milliseconds * (1 - early);
  }

  async function ask(name: string, task: Task): Promise<void> {
    running++;
    task.isRunning = true;
    const resolution = await lookup.resolve(name);
    running--;
    task.isRunning = false;
    task.wasAsked = true;
    task.due = clock.now() + wait(resolution, task);
    if (!closed && tasks.get(name) === task) resolved(name, resolution);
    tellSettled();
    schedule();
  }

  function tellSettled(): void {
    if (waiting.length === 0 || [...tasks.values()].some(({ wasAsked }) => !wasAsked)) return;
    for (const tell of waiting) tell();
    waiting = [];
  }

  function work(): void {
    cancel = null;
    const now = clock.now();
    const due = [...tasks].filter(([, task]) => !task.isRunning && task.due <= now);
    // The name that has waited longest is first: names that fail slowly must not delay the others.
    due.sort(([, a], [, b]) => a.due - b.due);
    for (const [name, task] of due.slice(0, CONCURRENCY - running)) void ask(name, task);
    schedule();
  }

  function schedule(): void {
    // Each lookup that ends calls this function again.
    if (closed || cancel !== null || running >= CONCURRENCY) return;
    let first = Number.POSITIVE_INFINITY;
    for (const { due, isRunning } of tasks.values()) if (!isRunning) first = Math.min(first, due);
    if (first === Number.POSITIVE_INFINITY) return;
    const inTime = first - clock.now();
    cancel = clock.after(inTime <= 0 ? 0 : Math.max(inTime, TICK), work);
  }

  return {
    want(names) {
      const wanted = new Set(names);
      for (const name of tasks.keys()) if (!wanted.has(name)) tasks.delete(name);
      for (const name of wanted) {
        if (tasks.has(name)) continue;
        const retries = new BackOff({ first: FIRST_RETRY, longest: LAST_RETRY });
        tasks.set(name, { due: clock.now(), isRunning: false, wasAsked: false, retries });
      }
      tellSettled();
      cancel?.();
      cancel = null;
      schedule();
    },
    settled: () =>
      new Promise((resolve) => {
        waiting.push(resolve);
        tellSettled();
      }),
    close() {
      closed = true;
      cancel?.();
      lookup.close();
      for (const tell of waiting) tell();
      waiting = [];
    },
  };
}
