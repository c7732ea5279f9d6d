import type { ListChange } from './lists.ts';

/** Things that several users name by id; each is kept for as long as a user names it. */
export interface UseCount<T> {
  readonly inUse: ReadonlyMap<string, T>;
  /**
   * Ends the uses in `removed` and adds those in `added`, one map by id per user. True if the
   * things in use changed.
   */
  change(removed: readonly ReadonlyMap<string, T>[], added: readonly ReadonlyMap<string, T>[]): boolean;
  /** Like change, and returns the things whose use began (`added`) or ended (`removed`). */
  exchange(
    removed: readonly ReadonlyMap<string, T>[],
    added: readonly ReadonlyMap<string, T>[],
  ): ListChange<T>;
}

/**
 * Things with the same id must be interchangeable. A change costs as much as the things that it
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
    const begun: T[] = [];
    const ended: T[] = [];
    for (const id of touched) {
      const was = before.get(id);
      if (users.get(id) === 0) {
        users.delete(id);
        inUse.delete(id);
        if (was !== undefined) ended.push(was);
      } else if (was === undefined) {
        const thing = inUse.get(id);
        if (thing !== undefined) begun.push(thing);
      }
    }
    return { added: begun, removed: ended };
  };
  return {
    inUse,
    exchange,
    change(removed, added) {
      const uses = exchange(removed, added);
      return uses.added.length > 0 || uses.removed.length > 0;
    },
  };
}
