import type { Key, SavedSet, SetEntry } from './entry.ts';
import type { SetDefinition, SetRef, SetType } from './set.ts';

/** Creates a set. */
export interface CreateOperation {
  readonly op: 'create';
  readonly set: SetDefinition;
}

/** Adds an entry to a set. */
export type AddOperation = {
  [T in SetType]: { readonly op: 'add'; readonly set: SetRef<T>; readonly entry: SetEntry<T> };
}[SetType];

/** Deletes an entry of a set, by its key. */
export type DelOperation = {
  [T in SetType]: { readonly op: 'del'; readonly set: SetRef<T>; readonly entry: Key<T> };
}[SetType];

/** Removes all entries of a set (flush), or the set itself (destroy). */
export interface NameOperation {
  readonly op: 'flush' | 'destroy';
  readonly name: string;
}

/** Exchanges two sets (swap), or renames one. */
export interface PairOperation {
  readonly op: 'swap' | 'rename';
  readonly from: string;
  readonly to: string;
}

/**
 * A line of `ipset restore`. Does not include tests: ipset accepts them there, but a failed one
 * ends everything without an error.
 */
export type RestoreOperation = CreateOperation | AddOperation | DelOperation | NameOperation | PairOperation;

/**
 * The operations that create saved sets. Lists come after the sets that they contain, since ipset
 * saves them in that order.
 */
export function toOperations(sets: readonly SavedSet[]): RestoreOperation[] {
  return sets.flatMap((set): RestoreOperation[] => [
    { op: 'create', set },
    ...set.entries.map((entry) => ({ op: 'add', set, entry }) as AddOperation),
  ]);
}
