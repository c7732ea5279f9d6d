/**
 * A map sorted by id, without the ids in `removed` and with the values in `changed`, which may be new.
 * Returns the same map if nothing changes. If only values change, and few of them, the new map
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
 * share a base, the cost is that of the changes.
 */
export function* changedIds<T>(
  before: ReadonlyMap<string, T>,
  now: ReadonlyMap<string, T>,
): Iterable<string> {
  if (before === now) return;
  const [was, is] = [partsOf(before), partsOf(now)];
  if (was.base === is.base) {
    for (const id of new Set([...was.over.keys(), ...is.over.keys()]))
      if (before.get(id) !== now.get(id)) yield id;
    return;
  }
  for (const [id, one] of now) if (one !== before.get(id)) yield id;
  for (const id of before.keys()) if (!now.has(id)) yield id;
}

/**
 * Parts of a map: `over` replaces the values of some ids of `base`. Neither is modified afterwards.
 */
interface Parts<T> {
  readonly base: ReadonlyMap<string, T>;
  readonly over: ReadonlyMap<string, T>;
}

const partsOfMaps = new WeakMap<ReadonlyMap<string, unknown>, Parts<unknown>>();

function partsOf<T>(map: ReadonlyMap<string, T>): Parts<T> {
  return (partsOfMaps.get(map) as Parts<T> | undefined) ?? { base: map, over: new Map() };
}

/** Limit of values over a base; half the size of the base is another. */
const MOST_OVER = 256;

/** The map with other values for some of its keys, in the same order. */
export function withValues<T>(
  before: ReadonlyMap<string, T>,
  values: ReadonlyMap<string, T>,
): ReadonlyMap<string, T> {
  if (values.size === 0) return before;
  const { base, over } = partsOf(before);
  const now = new Map([...over, ...values]);
  return now.size > Math.min(MOST_OVER, base.size / 2)
    ? new Map([...before, ...values])
    : overlaid(base, now);
}

/**
 * Whether two maps are known to have the same keys in the same order: one was made from the other,
 * or both from a third.
 */
export function sharesKeys(a: ReadonlyMap<string, unknown>, b: ReadonlyMap<string, unknown>): boolean {
  return partsOf(a).base === partsOf(b).base;
}

function overlaid<T>(base: ReadonlyMap<string, T>, over: ReadonlyMap<string, T>): ReadonlyMap<string, T> {
  function* entries(): Generator<[string, T], undefined, unknown> {
    for (const [id, one] of base) yield [id, over.get(id) ?? one];
  }
  function* values(): Generator<T, undefined, unknown> {
    for (const [id, one] of base) yield over.get(id) ?? one;
  }
  const map: ReadonlyMap<string, T> = {
    size: base.size,
    get: (id) => over.get(id) ?? base.get(id),
    has: (id) => base.has(id),
    keys: () => base.keys(),
    values,
    entries,
    [Symbol.iterator]: entries,
    forEach(callback) {
      for (const [id, one] of entries()) callback(one, id, map);
    },
  };
  partsOfMaps.set(map, { base, over });
  return map;
}

/** `added` is sorted by id; none of its ids is in `before`. */
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
