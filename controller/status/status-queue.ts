export interface QueuedStatus<T = object> {
  readonly uid: string;
  readonly status: T;
  /** The only node that caused it; null: several nodes, or something else. */
  readonly cause: string | null;
  /** The earliest time of the write (monotonic milliseconds). */
  readonly at: number;
}

/** The lane of statuses that no single node caused. */
const SHARED = '';

/**
 * Statuses that wait to be written, at most one of each policy. Those that one node alone caused
 * wait in a lane of that node; every second turn is of the others, and the rest goes round the
 * nodes. So a node whose failures change the statuses of all its policies delays nobody else's.
 */
export class StatusQueue<T = object> {
  readonly #lanes = new Map<string, Map<string, QueuedStatus<T>>>();
  /** By policy. */
  readonly #laneOf = new Map<string, string>();
  #isSharedNext = true;

  get size(): number {
    return this.#laneOf.size;
  }

  get(name: string): QueuedStatus<T> | undefined {
    return this.#lanes.get(this.#laneOf.get(name) ?? SHARED)?.get(name);
  }

  /**
   * Adds a status, or replaces the policy's queued one, which keeps its place if it has the same
   * cause.
   */
  put(name: string, wanted: QueuedStatus<T>): void {
    const before = this.#laneOf.get(name);
    // The queued status may also be news of the other cause.
    const lane = before === undefined || before === wanted.cause ? (wanted.cause ?? SHARED) : SHARED;
    if (before !== undefined && before !== lane) this.delete(name);
    const there = this.#lanes.get(lane) ?? new Map<string, QueuedStatus<T>>();
    this.#lanes.set(lane, there.set(name, wanted));
    this.#laneOf.set(name, lane);
  }

  delete(name: string): void {
    const lane = this.#laneOf.get(name);
    if (lane === undefined) return;
    this.#laneOf.delete(name);
    const there = this.#lanes.get(lane);
    there?.delete(name);
    if (there?.size === 0) this.#lanes.delete(lane);
  }

  clear(): void {
    this.#lanes.clear();
    this.#laneOf.clear();
  }

  /** Removes and returns the next status that is due; null if none is. */
  next(now: number): readonly [name: string, wanted: QueuedStatus<T>] | null {
    const nodes = [...this.#lanes.keys().filter((lane) => lane !== SHARED)];
    for (const lane of this.#isSharedNext ? [SHARED, ...nodes] : [...nodes, SHARED]) {
      const there = this.#lanes.get(lane) ?? new Map<string, QueuedStatus<T>>();
      const due = firstDue(there, now);
      if (due === null) continue;
      this.#isSharedNext = !this.#isSharedNext;
      this.delete(due[0]);
      // To the end of the round.
      if (there.size > 0 && this.#lanes.delete(lane)) this.#lanes.set(lane, there);
      return due;
    }
    return null;
  }

  /** The time when the first status is due. */
  earliest(): number {
    let least = Number.POSITIVE_INFINITY;
    for (const lane of this.#lanes.values()) for (const { at } of lane.values()) least = Math.min(least, at);
    return least;
  }
}

/** In order of arrival. Only statuses written in the last seconds are not due yet. */
function firstDue<T>(
  lane: ReadonlyMap<string, QueuedStatus<T>>,
  now: number,
): readonly [string, QueuedStatus<T>] | null {
  for (const one of lane) if (one[1].at <= now) return one;
  return null;
}
