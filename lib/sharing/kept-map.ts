import { isDeepStrictEqual } from 'node:util';

/** The map with the equal values of an earlier one; the earlier one if all are equal. */
export function keptMap<K, V>(
  now: ReadonlyMap<K, V>,
  before: ReadonlyMap<K, V> = new Map(),
  isEqual: (a: V, b: V) => boolean = isDeepStrictEqual,
): ReadonlyMap<K, V> {
  if (now === before) return before;
  let isSame = now.size === before.size;
  const values = new Map<K, V>();
  for (const [key, value] of now) {
    const was = before.get(key);
    const same = was !== undefined && (Object.is(was, value) || isEqual(was, value)) ? was : value;
    isSame &&= same === was;
    values.set(key, same);
  }
  return isSame ? before : values;
}
