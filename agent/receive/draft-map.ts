import { withValues } from '../../lib/sharing/changed-map.ts';

/** A mutable view of a map while messages are applied to it. */
export interface DraftMap<T> {
  get(key: string): T | undefined;
  set(key: string, value: T): void;
  delete(key: string): void;
  /** The resulting map; the original one if nothing was changed. */
  map(): ReadonlyMap<string, T>;
}

/** Copies the map at the first change of its keys. Throws if a deleted key doesn't exist. */
export function draftMap<T>(of: ReadonlyMap<string, T>): DraftMap<T> {
  /** Changed values of existing keys, as long as there is no copy. */
  const values = new Map<string, T>();
  let copy: Map<string, T> | null = null;
  const written = (): Map<string, T> => {
    copy ??= new Map([...of, ...values]);
    return copy;
  };
  const get = (key: string): T | undefined =>
    copy === null ? (values.get(key) ?? of.get(key)) : copy.get(key);
  return {
    get,
    set(key, value) {
      if (get(key) === value) return;
      if (copy !== null || !of.has(key)) written().set(key, value);
      else if (of.get(key) === value) values.delete(key);
      else values.set(key, value);
    },
    delete(key) {
      if (!written().delete(key)) throw new Error(`the stream removes ${key}, which is unknown`);
    },
    map: () => copy ?? withValues(of, values),
  };
}
