import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../../lib/process/clock.ts';
import { rateLimiter } from '../../lib/process/fair-queue.ts';
import { WorkQueue } from '../../lib/process/work-queue.ts';

export interface DamperOptions<T> {
  readonly clock: Clock;
  /**
   * The published value without what is not in the wanted one; the same object if all of it is.
   */
  readonly withoutRemoved: (published: T, wanted: T) => T;
  /** Called when held values are due; `due` returns them. */
  readonly due: () => void;
  /** Called when a name begins to change too often. */
  readonly delayed: (name: string) => void;
}

/** One name may change so often at once, and then so many times a second. */
const CHANGES = { burst: 10, perSecond: 0.1 };
/** The same for removals: each of the values of one change may be removed by itself. */
const REMOVALS = { burst: 10, perSecond: 1 };

/**
 * Values by name, each of which a different machine controls: one that changes its value all the
 * time must not send changes to all others. The first changes are published at once; further ones
 * are held, and the last value is published when the rate allows it. Removals have a rate of their
 * own, so that an address which a machine no longer has loses its rights within a second; what was
 * removed is added again as a change. A value that returns to the published one costs nothing.
 */
export class Damper<T> {
  readonly #options: DamperOptions<T>;
  readonly #changes;
  readonly #removals;
  readonly #published = new Map<string, T>();
  readonly #held = new Map<string, T>();
  /** The names of held values. */
  readonly #queue: WorkQueue;

  constructor(options: DamperOptions<T>) {
    const { now } = options.clock;
    this.#options = options;
    this.#changes = rateLimiter({ ...CHANGES, now });
    this.#removals = rateLimiter({ ...REMOVALS, now });
    this.#queue = new WorkQueue({ clock: options.clock, work: () => options.due() });
  }

  /** Sets a value. Returns the one to publish; null: none yet. */
  set(name: string, wanted: T): T | null {
    const published = this.#published.get(name);
    if (isDeepStrictEqual(published, wanted)) {
      this.#release(name);
      return published ?? null;
    }
    const isHeld = this.#held.has(name);
    const now = this.#next(name, wanted);
    if (!isHeld && this.#held.has(name)) this.#options.delayed(name);
    this.#scheduleFor(name);
    return now ?? published ?? null;
  }

  /** The name no longer exists; its rate still counts. */
  delete(name: string): void {
    this.#published.delete(name);
    this.#release(name);
  }

  /** The values that are due now. */
  due(): (readonly [name: string, value: T])[] {
    const due = [...this.#held].flatMap(([name, wanted]) => {
      const now = this.#next(name, wanted);
      return now === null ? [] : [[name, now] as const];
    });
    for (const name of this.#held.keys()) this.#scheduleFor(name);
    return due;
  }

  close(): void {
    void this.#queue.close();
    this.#held.clear();
  }

  #release(name: string): void {
    this.#held.delete(name);
    this.#queue.remove(name);
  }

  /** The value to publish now; null: that of before. Holds what is not published. */
  #next(name: string, wanted: T): T | null {
    if (this.#changes.allows(name)) {
      this.#release(name);
      this.#published.set(name, wanted);
      return wanted;
    }
    this.#held.set(name, wanted);
    const remains = this.#remains(name, wanted);
    if (remains === null || !this.#removals.allows(name)) return null;
    this.#published.set(name, remains);
    return remains;
  }

  /** The published value without what is no longer wanted; null: nothing is to be removed. */
  #remains(name: string, wanted: T): T | null {
    const published = this.#published.get(name);
    if (published === undefined) return null;
    const remains = this.#options.withoutRemoved(published, wanted);
    return remains === published ? null : remains;
  }

  /** The cost is that of one name: thousands may be held, and change, at the same time. */
  #scheduleFor(name: string): void {
    const wanted = this.#held.get(name);
    if (wanted === undefined) return;
    const wait = this.#changes.wait(name);
    const isRemoval = this.#remains(name, wanted) !== null;
    this.#queue.addAfter(name, isRemoval ? Math.min(wait, this.#removals.wait(name)) : wait);
  }
}
