import { unequalElements } from './incremental-list.ts';

interface Named {
  readonly name: string;
}

/** With more changes than this, a new index is made. */
const MOST_CHANGES = 256;

/**
 * Maps names to the items of a list. Made at the first lookup, and shared by the lists that differ
 * little from that one.
 */
interface Index<T> {
  readonly items: readonly T[];
  byName: Map<string, T> | null;
}

/**
 * Named items in order, as a Map from name to item. Making one from another list that is mostly the
 * same costs a walk along both lists: with 10,000 items a new Map takes a millisecond.
 */
export class NamedList<T extends Named> implements ReadonlyMap<string, T> {
  readonly items: readonly T[];
  readonly #index: Index<T>;
  /** The differences from the index; null: removed. */
  readonly #changes: ReadonlyMap<string, T | null>;

  constructor(items: readonly T[], last: NamedList<T> | null = null) {
    this.items = items;
    const changes = last === null ? null : last.#changesTo(items);
    this.#index = last !== null && changes !== null ? last.#index : { items, byName: null };
    this.#changes = changes ?? new Map();
  }

  /** The changes relative to the index; null if there are too many. */
  #changesTo(items: readonly T[]): ReadonlyMap<string, T | null> | null {
    const { gone, added } = unequalElements(this.items, items);
    if (this.#changes.size + gone.length + added.length > MOST_CHANGES) return null;
    const changes = new Map(this.#changes);
    for (const { name } of gone) changes.set(name, null);
    for (const item of added) changes.set(item.name, item);
    return changes;
  }

  get size(): number {
    return this.items.length;
  }

  get(name: string): T | undefined {
    const change = this.#changes.get(name);
    if (change !== undefined) return change ?? undefined;
    this.#index.byName ??= new Map(this.#index.items.map((item) => [item.name, item]));
    return this.#index.byName.get(name);
  }

  has(name: string): boolean {
    return this.get(name) !== undefined;
  }

  values(): MapIterator<T> {
    return this.items.values() as MapIterator<T>;
  }

  *keys(): MapIterator<string> {
    for (const { name } of this.items) yield name;
  }

  *entries(): MapIterator<[string, T]> {
    for (const item of this.items) yield [item.name, item];
  }

  [Symbol.iterator](): MapIterator<[string, T]> {
    return this.entries();
  }

  forEach(callback: (item: T, name: string, map: ReadonlyMap<string, T>) => void): void {
    for (const item of this.items) callback(item, item.name, this);
  }
}
