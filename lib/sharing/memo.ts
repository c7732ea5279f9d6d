/**
 * A function that computes the result for each object once and gives the same result again, as long
 * as the object exists. Whoever holds the function owns the results.
 */
export function memo<K extends object, V>(of: (key: K) => V): (key: K) => V {
  const known = new WeakMap<K, { readonly value: V }>();
  return (key) => {
    let found = known.get(key);
    if (found === undefined) {
      found = { value: of(key) };
      known.set(key, found);
    }
    return found.value;
  };
}
