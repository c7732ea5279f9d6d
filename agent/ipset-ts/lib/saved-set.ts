import type { Entry } from './entry.ts';
import type { SetDefinition, SetType } from './set.ts';

/** A set with all its entries, as save gives it. */
export type SavedSet<T extends SetType = SetType> = {
  [K in T]: SetDefinition<K> & { readonly entries: readonly Entry<K>[] };
}[T];

/** What list tells beyond save. */
export interface SetStatus {
  /** Of the type in the kernel; what a type can do grows with it. */
  readonly revision: number;
  /** Bytes in the kernel. */
  readonly memory: number;
  /**
   * By rules and by sets of type list:set. While there are any, the set can be neither destroyed
   * nor renamed.
   */
  readonly references: number;
  /** May count entries whose time is over, until the kernel collects them. */
  readonly entryCount: number;
}

/** A set as list gives it; no entries with `terse`. */
export type ListedSet<T extends SetType = SetType> = { [K in T]: SavedSet<K> & SetStatus }[T];
