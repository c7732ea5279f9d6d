import { compareText, firstAt } from './lists.ts';

/**
 * An immutable map in buckets by the hash of the key: a version with a few other entries copies
 * only their buckets. `changedIds` (changed-map.ts) compares two versions by bucket. Iterates by
 * bucket, and inside a bucket by key.
 */
export class BucketMap<T> implements ReadonlyMap<string, T> {
  readonly size: number;
  readonly buckets: readonly SortedEntries<T>[];

  private constructor(buckets: readonly SortedEntries<T>[], size: number) {
    this.buckets = buckets;
    this.size = size;
  }

  /** The map itself if it is one with that many buckets. */
  static of<T>(map: ReadonlyMap<string, T>, count: number): BucketMap<T> {
    if (map instanceof BucketMap && map.buckets.length === count) return map;
    const empty = new BucketMap<T>(new Array(count).fill(SortedEntries.empty<T>()), 0);
    return empty.with(map, []);
  }

  /**
   * A version with these entries set and then these keys removed; itself if nothing changes. The
   * keys are asked for after the entries.
   */
  with(entries: Iterable<readonly [string, T]>, removed: Iterable<string>): BucketMap<T> {
    const keys: string[] = [];
    const values: (T | typeof REMOVED)[] = [];
    for (const [key, value] of entries) {
      keys.push(key);
      values.push(value);
    }
    for (const key of removed) {
      keys.push(key);
      values.push(REMOVED);
    }
    let { size } = this;
    let buckets: SortedEntries<T>[] | null = null;
    for (const [at, some] of byBucket(keys, this.buckets.length)) {
      const before = this.buckets[at] as SortedEntries<T>;
      const now = before.with({ keys, values }, some);
      if (now === before) continue;
      buckets ??= [...this.buckets];
      buckets[at] = now;
      size += now.size - before.size;
    }
    return buckets === null ? this : new BucketMap(buckets, size);
  }

  get(key: string): T | undefined {
    return this.buckets[bucketOf(key, this.buckets.length)]?.get(key);
  }

  has(key: string): boolean {
    return this.buckets[bucketOf(key, this.buckets.length)]?.has(key) === true;
  }

  *entries(): MapIterator<[string, T]> {
    for (const bucket of this.buckets) yield* bucket;
  }

  *keys(): MapIterator<string> {
    for (const [key] of this.entries()) yield key;
  }

  *values(): MapIterator<T> {
    for (const [, value] of this.entries()) yield value;
  }

  [Symbol.iterator](): MapIterator<[string, T]> {
    return this.entries();
  }

  forEach(callback: (value: T, key: string, map: ReadonlyMap<string, T>) => void): void {
    const call = (value: T, key: string): void => callback(value, key, this);
    for (const bucket of this.buckets) bucket.forEach(call);
  }
}

/** The indexes of the keys in each bucket that has any, in order: sorted by counting. */
function* byBucket(keys: readonly string[], count: number): Iterable<readonly [at: number, Uint32Array]> {
  const buckets = new Uint32Array(keys.length);
  const ends = new Uint32Array(count);
  for (let i = 0; i < keys.length; i++) {
    const at = bucketOf(keys[i] as string, count);
    buckets[i] = at;
    ends[at] = (ends[at] as number) + 1;
  }
  let total = 0;
  const next = new Uint32Array(count);
  for (let at = 0; at < count; at++) {
    next[at] = total;
    total += ends[at] as number;
    ends[at] = total;
  }
  const order = new Uint32Array(keys.length);
  for (let i = 0; i < keys.length; i++) {
    const at = buckets[i] as number;
    const place = next[at] as number;
    order[place] = i;
    next[at] = place + 1;
  }
  let begin = 0;
  for (let at = 0; at < count; at++) {
    const end = ends[at] as number;
    if (end > begin) yield [at, order.subarray(begin, end)];
    begin = end;
  }
}

/** FNV-1a of the key's UTF-16 units, modulo `count`. Programs of other versions rely on it. */
function bucketOf(key: string, count: number): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  return (hash >>> 0) % count;
}

/** Instead of a value: the entry is removed. */
export const REMOVED = Symbol('removed');

/** Changes of entries, in columns: 100,000 at once make no object each. */
interface EntryChanges<T> {
  readonly keys: readonly string[];
  /** The values of these keys. */
  readonly values: readonly (T | typeof REMOVED)[];
}

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
   * A version with some of the changes; itself if they change nothing.
   *
   * @param some their indexes, which are sorted in place; of changes of one key, the last counts
   */
  with({ keys, values }: EntryChanges<T>, some: Uint32Array): SortedEntries<T> {
    const isOther = (i: number): boolean => {
      const [key, value] = [keys[i] as string, values[i] as T | typeof REMOVED];
      return value === REMOVED ? this.has(key) : this.get(key) !== value || !this.has(key);
    };
    if (!some.some(isOther)) return this;
    if (some.length > 1) some.sort((a, b) => compareText(keys[a] as string, keys[b] as string) || a - b);
    const now = { keys: [] as string[], values: [] as T[] };
    let from = 0;
    const copy = (to: number): void => {
      for (; from < to; from++) {
        now.keys.push(this.#keys[from] as string);
        now.values.push(this.#values[from] as T);
      }
    };
    for (let nth = 0; nth < some.length; nth++) {
      const i = some[nth] as number;
      const [key, value] = [keys[i] as string, values[i] as T | typeof REMOVED];
      if (nth + 1 < some.length && keys[some[nth + 1] as number] === key) continue;
      copy(this.#placeOf(key, from));
      if (this.#keys[from] === key) from++;
      if (value === REMOVED) continue;
      now.keys.push(key);
      now.values.push(value);
    }
    copy(this.#keys.length);
    // Copies, because a list that grew has room for more.
    return new SortedEntries(now.keys.slice(), now.values.slice());
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
    for (let i = 0; i < this.#keys.length; i++) callback(this.#values[i] as T, this.#keys[i] as string, this);
  }

  /** The least place whose key is not less. */
  #placeOf(key: string, from = 0): number {
    return firstAt(from, this.#keys.length, (i) => (this.#keys[i] as string) >= key);
  }
}
