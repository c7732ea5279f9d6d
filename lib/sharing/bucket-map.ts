import { SortedEntries } from './sorted-entries.ts';

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

  /** A version with these entries set and then these keys removed; itself if nothing changes. */
  with(entries: Iterable<readonly [string, T]>, removed: Iterable<string>): BucketMap<T> {
    const changes = new Map<number, Change<T>>();
    const changeOf = (key: string): Change<T> => {
      const at = bucketOf(key, this.buckets.length);
      let change = changes.get(at);
      if (change === undefined) {
        change = { set: [], removed: [] };
        changes.set(at, change);
      }
      return change;
    };
    for (const entry of entries) changeOf(entry[0]).set.push(entry);
    for (const key of removed) changeOf(key).removed.push(key);
    let { size } = this;
    let buckets: SortedEntries<T>[] | null = null;
    for (const [at, change] of changes) {
      const before = this.buckets[at];
      const now = before?.with(change.set, change.removed);
      if (before === undefined || now === undefined || now === before) continue;
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
    for (const [key, value] of this.entries()) callback(value, key, this);
  }
}

/** What is different in a bucket. */
interface Change<T> {
  readonly set: (readonly [key: string, value: T])[];
  readonly removed: string[];
}

/** FNV-1a of the key's UTF-16 units, modulo `count`. Programs of other versions rely on it. */
export function bucketOf(key: string, count: number): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  return (hash >>> 0) % count;
}
