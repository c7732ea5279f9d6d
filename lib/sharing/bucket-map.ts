/**
 * An immutable map in buckets by the hash of the key: a version with a few other entries copies
 * only their buckets. `changedIds` (changed-map.ts) compares two versions by bucket. Iterates by
 * bucket, and inside a bucket by key.
 */
export class BucketMap<T> implements ReadonlyMap<string, T> {
  readonly size: number;
  readonly buckets: readonly ReadonlyMap<string, T>[];

  private constructor(buckets: readonly ReadonlyMap<string, T>[], size: number) {
    this.buckets = buckets;
    this.size = size;
  }

  /** The map itself if it is one with that many buckets. */
  static of<T>(map: ReadonlyMap<string, T>, count: number): BucketMap<T> {
    if (map instanceof BucketMap && map.buckets.length === count) return map;
    const empty = new BucketMap<T>(new Array(count).fill(new Map<string, T>()), 0);
    return empty.with(map, []);
  }

  /** A version with these entries set and then these keys removed; itself if nothing changes. */
  with(entries: Iterable<readonly [string, T]>, removed: Iterable<string>): BucketMap<T> {
    const copies = new Map<number, Map<string, T>>();
    let { size } = this;
    const copyOf = (at: number): Map<string, T> => {
      const copy = copies.get(at) ?? new Map(this.buckets[at]);
      copies.set(at, copy);
      return copy;
    };
    const current = (at: number) => copies.get(at) ?? this.buckets[at];
    for (const [key, value] of entries) {
      const at = bucketOf(key, this.buckets.length);
      if (current(at)?.get(key) === value && current(at)?.has(key) === true) continue;
      const copy = copyOf(at);
      if (!copy.has(key)) size++;
      copy.set(key, value);
    }
    for (const key of removed) {
      const at = bucketOf(key, this.buckets.length);
      if (current(at)?.has(key) === true && copyOf(at).delete(key)) size--;
    }
    if (copies.size === 0) return this;
    const buckets = this.buckets.map((bucket, at) => {
      const copy = copies.get(at);
      return copy === undefined ? bucket : new Map([...copy].sort(([a], [b]) => (a < b ? -1 : 1)));
    });
    return new BucketMap(buckets, size);
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

/** FNV-1a of the key's UTF-16 units, modulo `count`. Programs of other versions rely on it. */
export function bucketOf(key: string, count: number): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  return (hash >>> 0) % count;
}
