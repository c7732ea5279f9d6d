import { firstAt } from './first-at.ts';

/**
 * An immutable map sorted by key, in two arrays: it takes half the memory of a Map and a fifth of
 * the time to make, and a look-up is a binary search. For few entries, or such as are made once.
 */
export class SortedEntries<T> implements ReadonlyMap<string, T> {
  readonly #keys: readonly string[];
  readonly #values: readonly T[];

  private constructor(keys: readonly string[], values: readonly T[]) {
    this.#keys = keys;
    this.#values = values;
  }

  static empty<T>(): SortedEntries<T> {
    return new SortedEntries<T>([], []);
  }

  get size(): number {
    return this.#keys.length;
  }

  /**
   * A version with these entries set and then these keys removed; itself if nothing changes.
   *
   * @param entries are sorted in place; of one key the last counts
   */
  with(entries: (readonly [key: string, value: T])[], removed: readonly string[]): SortedEntries<T> {
    const isSame = entries.every(([key, value]) => this.has(key) && this.get(key) === value);
    if (isSame && !removed.some((key) => this.has(key))) return this;
    // Sorting is stable. Without destructuring, which would call an iterator for each comparison.
    entries.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0));
    const gone = removed.length === 0 ? null : new Set(removed);
    const keys: string[] = [];
    const values: T[] = [];
    let from = 0;
    const copy = (to: number): void => {
      for (; from < to; from++) this.#put(from, keys, values, gone);
    };
    for (let i = 0; i < entries.length; i++) {
      const entry = entries[i];
      // A later entry has the same key.
      if (entry === undefined || entry[0] === entries[i + 1]?.[0]) continue;
      const at = this.#placeOf(entry[0], from);
      copy(at);
      if (this.#keys[at] === entry[0]) from = at + 1;
      if (gone?.has(entry[0])) continue;
      keys.push(entry[0]);
      values.push(entry[1]);
    }
    copy(this.#keys.length);
    return new SortedEntries(keys, values);
  }

  get(key: string): T | undefined {
    const at = this.#placeOf(key);
    return this.#keys[at] === key ? this.#values[at] : undefined;
  }

  has(key: string): boolean {
    return this.#keys[this.#placeOf(key)] === key;
  }

  *entries(): MapIterator<[string, T]> {
    for (let i = 0; i < this.#keys.length; i++) yield [this.#keys[i] as string, this.#values[i] as T];
  }

  keys(): MapIterator<string> {
    return this.#keys.values();
  }

  values(): MapIterator<T> {
    return this.#values.values();
  }

  [Symbol.iterator](): MapIterator<[string, T]> {
    return this.entries();
  }

  forEach(callback: (value: T, key: string, map: ReadonlyMap<string, T>) => void): void {
    for (const [key, value] of this) callback(value, key, this);
  }

  #put(at: number, keys: string[], values: T[], gone: ReadonlySet<string> | null): void {
    const key = this.#keys[at] as string;
    if (gone?.has(key)) return;
    keys.push(key);
    values.push(this.#values[at] as T);
  }

  /** The least place whose key is not less. */
  #placeOf(key: string, from = 0): number {
    return firstAt(from, this.#keys.length, (i) => (this.#keys[i] as string) >= key);
  }
}
