import { BackOff } from '../../lib/process/back-off.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Lookup } from './lookup.ts';
import { clampTTL, type NameTimes } from './name-table.ts';
import { type Resolution, shortestTTL } from './resolution.ts';

export interface ResolverParts {
  readonly lookup: Lookup;
  readonly clock: Clock;
  readonly times: NameTimes;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  resolved(name: string, resolution: Resolution): void;
}

/** Asks for names again and again. */
export interface RunningResolver {
  /** The names from now on; a new one is asked for at once. */
  want(names: readonly string[]): void;
  /** Settles once every name was asked for, whatever came of it. */
  settled(): Promise<void>;
  close(): void;
}

/** So many names are asked for at one time. */
const CONCURRENCY = 100;
/** Names that are due within so long are one wake-up (milliseconds). */
const TICK = 100;
/** After a failure (milliseconds), doubled with each. */
const FIRST_RETRY = 5_000;
const LAST_RETRY = 60_000;
/** Share by which waits differ, so that names asked for together don't stay together. */
const JITTER = 0.1;

interface Task {
  due: number;
  isRunning: boolean;
  wasAsked: boolean;
  readonly retries: BackOff;
}

/**
 * Each name is asked for again when its shortest TTL has ended, within the bounds; after a failure
 * with back-off.
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
    // Whoever has waited longest: names that fail slowly must not keep others from their turn.
    due.sort(([, a], [, b]) => a.due - b.due);
    for (const [name, task] of due.slice(0, CONCURRENCY - running)) void ask(name, task);
    schedule();
  }

  function schedule(): void {
    // Each that ends comes here again.
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
