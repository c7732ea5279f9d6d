import { BucketMap } from './bucket-map.ts';

/**
 * A map sorted by id, without the ids in `removed` and with the values in `changed`, which may be
 * new. Returns the same map if nothing changes. If only values change, and few of them, the new map
 * shares the rest with the map before: the cost is that of the changes.
 */
export function changedMap<T extends { readonly id: string }>(
  before: ReadonlyMap<string, T>,
  { removed, changed }: { readonly removed: readonly string[]; readonly changed: readonly T[] },
): ReadonlyMap<string, T> {
  if (removed.length === 0 && changed.length === 0) return before;
  const added = changed.filter(({ id }) => !before.has(id)).sort((a, b) => (a.id < b.id ? -1 : 1));
  if (added.length === 0 && removed.length === 0) {
    return withValues(before, new Map(changed.map((one) => [one.id, one])));
  }
  const now = added.length === 0 ? new Map(before) : merged(before, added);
  for (const id of removed) now.delete(id);
  for (const one of changed) now.set(one.id, one);
  return now;
}

/**
 * The ids that only one of two versions of a map has, or whose values differ. If both versions
 * share a base, or are BucketMaps, the cost is that of the changes.
 */
export function* changedIds<T>(
  before: ReadonlyMap<string, T>,
  now: ReadonlyMap<string, T>,
): Iterable<string> {
  if (before === now) return;
  if (before instanceof BucketMap && now instanceof BucketMap && haveSameBuckets(before, now)) {
    for (let at = 0; at < now.buckets.length; at++) {
      const [was, is] = [before.buckets[at] ?? new Map(), now.buckets[at] ?? new Map()];
      if (was !== is) yield* changedIds(was, is);
    }
    return;
  }
  const [was, is] = [groupsOf(before), groupsOf(now)];
  if (was.base === is.base) {
    for (const id of new Set([...was.over.keys(), ...is.over.keys()]))
      if (before.get(id) !== now.get(id)) yield id;
    return;
  }
  let common = 0;
  for (const [id, one] of now) {
    const other = before.get(id);
    if (other !== undefined || before.has(id)) common++;
    if (one !== other) yield id;
  }
  if (common < before.size) for (const id of before.keys()) if (!now.has(id)) yield id;
}

function haveSameBuckets(a: BucketMap<unknown>, b: BucketMap<unknown>): boolean {
  return a.buckets.length === b.buckets.length;
}

/**
 * A map in two parts: `over` replaces the values of some ids of `base`. Neither is modified
 * afterwards.
 */
class OverlaidMap<T> implements ReadonlyMap<string, T> {
  readonly base: ReadonlyMap<string, T>;
  readonly over: ReadonlyMap<string, T>;

  constructor(base: ReadonlyMap<string, T>, over: ReadonlyMap<string, T>) {
    this.base = base;
    this.over = over;
  }

  get size(): number {
    return this.base.size;
  }

  get(id: string): T | undefined {
    return this.over.get(id) ?? this.base.get(id);
  }

  has(id: string): boolean {
    return this.base.has(id);
  }

  keys(): MapIterator<string> {
    return this.base.keys();
  }

  *values(): MapIterator<T> {
    for (const [id, one] of this.base) yield this.over.get(id) ?? one;
  }

  *entries(): MapIterator<[string, T]> {
    for (const [id, one] of this.base) yield [id, this.over.get(id) ?? one];
  }

  [Symbol.iterator](): MapIterator<[string, T]> {
    return this.entries();
  }

  forEach(callback: (value: T, id: string, map: ReadonlyMap<string, T>) => void): void {
    for (const [id, one] of this) callback(one, id, this);
  }
}

function groupsOf<T>(map: ReadonlyMap<string, T>): Pick<OverlaidMap<T>, 'base' | 'over'> {
  return map instanceof OverlaidMap ? map : { base: map, over: new Map() };
}

/** Limit of values over a base; half the size of the base is another. */
const MOST_OVER = 256;

/** The map with other values for some of its keys, in the same order. */
export function withValues<T>(
  before: ReadonlyMap<string, T>,
  values: ReadonlyMap<string, T>,
): ReadonlyMap<string, T> {
  if (values.size === 0) return before;
  const { base, over } = groupsOf(before);
  const now = new Map([...over, ...values]);
  return now.size > Math.min(MOST_OVER, base.size / 2)
    ? new Map([...before, ...values])
    : new OverlaidMap(base, now);
}

/**
 * Whether two maps are known to have the same keys in the same order: one was made from the other,
 * or both from a third.
 */
export function sharesKeys(a: ReadonlyMap<string, unknown>, b: ReadonlyMap<string, unknown>): boolean {
  return groupsOf(a).base === groupsOf(b).base;
}

/** `come` is sorted by id; none of its ids is in `before`. */
function merged<T extends { readonly id: string }>(
  before: ReadonlyMap<string, T>,
  added: readonly T[],
): Map<string, T> {
  const now = new Map<string, T>();
  let next = 0;
  for (const [id, one] of before) {
    for (let other = added[next]; other !== undefined && other.id < id; other = added[++next])
      now.set(other.id, other);
    now.set(id, one);
  }
  for (const other of added.slice(next)) now.set(other.id, other);
  return now;
}
