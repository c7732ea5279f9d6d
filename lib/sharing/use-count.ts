/** What several users name by id, each thing for as long as anybody names it. */
export interface UseCount<T> {
  readonly inUse: ReadonlyMap<string, T>;
  /** The things that each user names, by id. True where others are in use than before. */
  change(removed: readonly ReadonlyMap<string, T>[], added: readonly ReadonlyMap<string, T>[]): boolean;
  /** The same, and which they are. */
  exchange(
    removed: readonly ReadonlyMap<string, T>[],
    added: readonly ReadonlyMap<string, T>[],
  ): UseChange<T>;
}

/** What nobody named before, and what nobody names any more. */
export interface UseChange<T> {
  readonly come: readonly T[];
  readonly gone: readonly T[];
}

/**
 * Things of one id are the same to whoever uses them; the cost of a change is that of what it
 * names.
 */
export function useCount<T>(): UseCount<T> {
  const inUse = new Map<string, T>();
  const users = new Map<string, number>();
  const exchange: UseCount<T>['exchange'] = (removed, added) => {
    const touched = new Set<string>();
    const before = new Map<string, T>();
    const count = (id: string, by: number): number => {
      if (!touched.has(id)) {
        touched.add(id);
        const thing = inUse.get(id);
        if (thing !== undefined) before.set(id, thing);
      }
      const now = (users.get(id) ?? 0) + by;
      users.set(id, now);
      return now;
    };
    for (const named of added) {
      for (const [id, thing] of named) if (count(id, 1) === 1) inUse.set(id, thing);
    }
    for (const named of removed) for (const id of named.keys()) count(id, -1);
    const come: T[] = [];
    const gone: T[] = [];
    for (const id of touched) {
      const was = before.get(id);
      if (users.get(id) === 0) {
        users.delete(id);
        inUse.delete(id);
        if (was !== undefined) gone.push(was);
      } else if (was === undefined) {
        const thing = inUse.get(id);
        if (thing !== undefined) come.push(thing);
      }
    }
    return { come, gone };
  };
  return {
    inUse,
    exchange,
    change(removed, added) {
      const { come, gone } = exchange(removed, added);
      return come.length > 0 || gone.length > 0;
    },
  };
}
