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
    let buckets: ReadonlyMap<string, T>[] | null = null;
    for (const [at, change] of changes) {
      const before = this.buckets[at] ?? new Map<string, T>();
      const now = changed(before, change);
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
    for (const [key, value] of this.entries()) callback(value, key, this);
  }
}

/** What is different in a bucket. */
interface Change<T> {
  /** A later one counts. */
  readonly set: (readonly [key: string, value: T])[];
  /** After that. */
  readonly removed: string[];
}

/** The sorted bucket after a change, sorted; itself if nothing changes. */
function changed<T>(bucket: ReadonlyMap<string, T>, { set, removed }: Change<T>): ReadonlyMap<string, T> {
  const isSame = set.every(([key, value]) => bucket.get(key) === value && bucket.has(key));
  if (isSame && !removed.some((key) => bucket.has(key))) return bucket;
  // Stable: of one key, the later entry stays the later one.
  set.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  const now = new Map<string, T>();
  let next = 0;
  for (const [key, value] of bucket) {
    for (let entry = set[next]; entry !== undefined && entry[0] < key; entry = set[++next])
      now.set(entry[0], entry[1]);
    now.set(key, value);
  }
  for (const [key, value] of next === 0 ? set : set.slice(next)) now.set(key, value);
  for (const key of removed) now.delete(key);
  return now;
}

/** FNV-1a of the key's UTF-16 units, modulo `count`. Programs of other versions rely on it. */
export function bucketOf(key: string, count: number): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  return (hash >>> 0) % count;
}
