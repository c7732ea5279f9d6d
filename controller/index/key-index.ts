import type { ListChange } from '../../lib/sharing/lists.ts';

/** Objects by keys that several objects may share. */
export interface KeyIndex<T extends object> {
  get(key: string): Iterable<T>;
  has(key: string): boolean;
  keys(): Iterable<string>;
  change(change: ListChange<T>): void;
}

/** A key with more objects than this has a Set. */
const FEW = 8;

/**
 * Most keys have one object, many a few: a Set for each of 100,000 addresses would take 20 MB, and
 * a long time to make.
 */
export function keyIndex<T extends object>(
  items: Iterable<T>,
  keysOf: (item: T) => readonly string[],
): KeyIndex<T> {
  const byKey = new Map<string, T | T[] | Set<T>>();
  const add = (item: T): void => {
    for (const key of keysOf(item)) {
      const there = byKey.get(key);
      if (there === undefined) byKey.set(key, item);
      else if (there instanceof Set) there.add(item);
      else if (Array.isArray(there)) {
        if (there.includes(item)) continue;
        if (there.length < FEW) there.push(item);
        else byKey.set(key, new Set([...there, item]));
      } else if (there !== item) byKey.set(key, [there, item]);
    }
  };
  const remove = (item: T): void => {
    for (const key of keysOf(item)) {
      const there = byKey.get(key);
      if (there === item) byKey.delete(key);
      else if (there instanceof Set) {
        if (there.delete(item) && there.size === 0) byKey.delete(key);
      } else if (Array.isArray(there)) {
        const at = there.indexOf(item);
        if (at < 0) continue;
        there.splice(at, 1);
        if (there.length === 0) byKey.delete(key);
      }
    }
  };
  for (const item of items) add(item);
  return {
    get(key) {
      const there = byKey.get(key);
      if (there === undefined) return [];
      return there instanceof Set || Array.isArray(there) ? there : [there];
    },
    has: (key) => byKey.has(key),
    keys: () => byKey.keys(),
    change({ removed, added }) {
      removed.forEach(remove);
      added.forEach(add);
    },
  };
}
