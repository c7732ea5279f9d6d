import type { Entry } from './entry.ts';
import type { SetDefinition, SetType } from './set.ts';

/** A set with all its entries, as returned by save. */
export type SavedSet<T extends SetType = SetType> = {
  [K in T]: SetDefinition<K> & { readonly entries: readonly Entry<K>[] };
}[T];

/** Information that list has beyond save. */
export interface SetStatus {
  /** Revision of the type in the kernel; later revisions have more features. */
  readonly revision: number;
  /** Kernel memory in bytes. */
  readonly memory: number;
  /**
   * References by rules and by sets of type list:set. With any, the set can be neither destroyed
   * nor renamed.
   */
  readonly references: number;
  /** May include expired entries until the kernel collects them. */
  readonly entryCount: number;
}

/** A set as returned by list; without entries if `terse`. */
export type ListedSet<T extends SetType = SetType> = { [K in T]: SavedSet<K> & SetStatus }[T];
