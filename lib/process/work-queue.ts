import { type BackOffOptions, waitAfter } from './back-off.ts';
import type { Clock } from './clock.ts';

export interface WorkQueueOptions<Key extends string> {
  readonly clock: Clock;
  /**
   * Does the work of a key, with what is known of the key by then; `source` is that of the adds
   * since the last time. Must not throw: what failed is added again.
   */
  readonly work: (key: Key, source: Source) => Promise<void> | void;
  /** The most keys at the same time; absent: one. */
  readonly atOnce?: number;
  /** Milliseconds from the start of one key's work to that of the next; absent: none. */
  readonly between?: number;
  /** The waits of `addRateLimited`; absent: those of client-go. */
  readonly waits?: BackOffOptions;
  /**
   * Whether failures of all keys are counted together, and delay all of them: their work asks the
   * same server.
   */
  readonly failsAsOne?: boolean;
}

interface Delayed {
  /** Monotonic milliseconds. */
  readonly at: number;
  readonly source: Source;
}

const WAITS: BackOffOptions = { first: 5, longest: 1_000_000 };
/** Stands for all keys where failures are counted together. */
const ALL = '';

/**
 * The work queue of Kubernetes' controllers (client-go's util/workqueue). A key that is added
 * several times before its work starts is worked on once; one that is added during its work is
 * worked on again afterwards, never twice at the same time. Work starts from a timer, never within
 * `add`. Due keys take turns by their sources: see Turns.
 */
export class WorkQueue<Key extends string = string> {
  readonly #options: WorkQueueOptions<Key>;
  readonly #delayed = new Map<Key, Delayed>();
  readonly #due = new Turns<Key>();
  readonly #running = new Map<Key, Promise<void>>();
  readonly #failures = new Map<string, number>();
  /** No work starts before (monotonic milliseconds). */
  #rest = Number.NEGATIVE_INFINITY;
  #timer: { readonly at: number; readonly cancel: () => void } | null = null;
  #isClosed = false;

  constructor(options: WorkQueueOptions<Key>) {
    this.#options = options;
  }

  /** The number of keys that wait. */
  get size(): number {
    return this.#delayed.size + this.#due.size;
  }

  /** Whether the key waits; one that is worked on does not. */
  has(key: Key): boolean {
    return this.#delayed.has(key) || this.#due.has(key);
  }

  add(key: Key, source: Source = null): void {
    this.addAfter(key, 0, source);
  }

  /** Adds a key whose work starts in so many milliseconds; of several times the earliest counts. */
  addAfter(key: Key, milliseconds: number, source: Source = null): void {
    if (this.#isClosed) return;
    if (this.#due.has(key)) {
      this.#due.add(key, source);
      return;
    }
    const at = this.#options.clock.now() + Math.max(0, milliseconds);
    const before = this.#delayed.get(key) ?? { at, source };
    const now = { at: Math.min(at, before.at), source: sourceOfBoth(before.source, source) };
    this.#delayed.set(key, now);
    this.#armAt(now.at);
  }

  /** Adds a key whose work failed. Returns the wait, which grows until `forget` (milliseconds). */
  addRateLimited(key: Key, source: Source = null): number {
    const { waits = WAITS, failsAsOne = false, clock } = this.#options;
    const counted = failsAsOne ? ALL : key;
    const failures = (this.#failures.get(counted) ?? 0) + 1;
    this.#failures.set(counted, failures);
    const wait = waitAfter(failures, waits);
    if (failsAsOne) this.#rest = clock.now() + wait;
    this.addAfter(key, wait, source);
    return wait;
  }

  /** Called after a success: the next wait of `addRateLimited` is the first one again. */
  forget(key: Key): void {
    this.#failures.delete(this.#options.failsAsOne === true ? ALL : key);
  }

  /** Drops a key that waits. */
  remove(key: Key): void {
    this.#delayed.delete(key);
    this.#due.delete(key);
    if (this.#delayed.size === 0 && this.#due.size === 0) this.#disarm();
  }

  /** Drops all keys that wait. Resolves after the work in progress, which may add some again. */
  async clear(): Promise<void> {
    this.#delayed.clear();
    this.#due.clear();
    this.#disarm();
    await Promise.all(this.#running.values());
  }

  /** As `clear`; nothing can be added any more. */
  close(): Promise<void> {
    this.#isClosed = true;
    return this.clear();
  }

  #start(): void {
    const { clock, atOnce = 1, between = 0 } = this.#options;
    try {
      while (this.#running.size < atOnce && clock.now() >= this.#rest) {
        const next = this.#due.next();
        if (next === null) break;
        if (between > 0) this.#rest = clock.now() + between;
        this.#run(...next);
      }
    } finally {
      this.#arm();
    }
  }

  #run(key: Key, source: Source): void {
    const work = this.#options.work(key, source);
    if (work === undefined) return;
    const done = work.finally(() => {
      this.#running.delete(key);
      this.#start();
    });
    this.#running.set(key, done);
  }

  /** After a work that ended, or that may have to wait. */
  #arm(): void {
    const { atOnce = 1 } = this.#options;
    if (this.#running.size >= atOnce) return;
    let next = this.#due.size > 0 ? this.#rest : Number.POSITIVE_INFINITY;
    for (const [key, { at }] of this.#delayed) if (!this.#running.has(key)) next = Math.min(next, at);
    if (next !== Number.POSITIVE_INFINITY) this.#armAt(next);
  }

  #armAt(at: number): void {
    const { clock, atOnce = 1 } = this.#options;
    const time = Math.max(at, this.#rest);
    // The end of a work in progress arms it.
    if (this.#running.size >= atOnce || (this.#timer !== null && this.#timer.at <= time)) return;
    this.#disarm();
    const cancel = clock.after(Math.max(0, time - clock.now()), () => {
      this.#timer = null;
      this.#collect();
      this.#start();
    });
    this.#timer = { at: time, cancel };
  }

  #disarm(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }

  #collect(): void {
    const now = this.#options.clock.now();
    for (const [key, { at, source }] of this.#delayed) {
      if (at > now || this.#running.has(key)) continue;
      this.#delayed.delete(key);
      this.#due.add(key, source);
    }
  }
}

/** Keys of one source each; null: of several sources, or of none. */
export type Source = string | null;

/**
 * Keys that wait for their turn, each once. Those of one source alone wait in a lane of that
 * source; every second turn is of the others, and the rest goes round the sources. So a source with
 * thousands of keys delays nobody else's.
 */
export class Turns<Key extends string = string> {
  readonly #lanes = new Map<Source, Set<Key>>();
  readonly #sources = new Map<Key, Source>();
  #isSharedNext = true;

  get size(): number {
    return this.#sources.size;
  }

  has(key: Key): boolean {
    return this.#sources.has(key);
  }

  /** Adds a key. One that waits already keeps its place, unless its source is another one. */
  add(key: Key, source: Source): void {
    const before = this.#sources.get(key);
    const now = before === undefined ? source : sourceOfBoth(before, source);
    if (before === now) return;
    this.delete(key);
    this.#lanes.set(now, (this.#lanes.get(now) ?? new Set()).add(key));
    this.#sources.set(key, now);
  }

  delete(key: Key): void {
    const source = this.#sources.get(key);
    if (source === undefined) return;
    this.#sources.delete(key);
    const lane = this.#lanes.get(source);
    lane?.delete(key);
    if (lane?.size === 0) this.#lanes.delete(source);
  }

  clear(): void {
    this.#lanes.clear();
    this.#sources.clear();
  }

  /** Removes and returns the key whose turn it is; null: none waits. */
  next(): readonly [key: Key, source: Source] | null {
    const [first = null] = this.#lanes.keys().filter((source) => source !== null);
    const isShared = this.#lanes.has(null) && (this.#isSharedNext || first === null);
    const source = isShared ? null : first;
    const lane = this.#lanes.get(source);
    const [key] = lane ?? [];
    if (lane === undefined || key === undefined) return null;
    this.#isSharedNext = !this.#isSharedNext;
    this.delete(key);
    // To the end of the round.
    if (lane.size > 0 && this.#lanes.delete(source)) this.#lanes.set(source, lane);
    return [key, source];
  }
}

/** The source of a key that was added for both. */
function sourceOfBoth(a: Source, b: Source): Source {
  return a === b ? a : null;
}
