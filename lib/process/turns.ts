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
export function sourceOfBoth(a: Source, b: Source): Source {
  return a === b ? a : null;
}
