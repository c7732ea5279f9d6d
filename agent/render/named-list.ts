import { others } from './alike.ts';

interface Named {
  readonly name: string;
}

/** More changes than these on top of an index make a new one. */
const MOST_CHANGES = 256;

/**
 * By name, of a list; made when it is first asked for, and shared by the lists that differ little
 * from this one.
 */
interface Index<T> {
  readonly items: readonly T[];
  byName: Map<string, T> | null;
}

/**
 * Things with names of their own, in their order, as a Map from name to thing. Made from another
 * list of which most is the same it costs a walk along both: among 10,000 a Map made anew takes a
 * millisecond.
 */
export class NamedList<T extends Named> implements ReadonlyMap<string, T> {
  readonly items: readonly T[];
  readonly #index: Index<T>;
  /** What is other than in the index; null: not there any more. */
  readonly #changes: ReadonlyMap<string, T | null>;

  constructor(items: readonly T[], last: NamedList<T> | null = null) {
    this.items = items;
    const changes = last === null ? null : last.#changesTo(items);
    this.#index = last !== null && changes !== null ? last.#index : { items, byName: null };
    this.#changes = changes ?? new Map();
  }

  /** On top of the index; null where they are too many. */
  #changesTo(items: readonly T[]): ReadonlyMap<string, T | null> | null {
    const { gone, added } = others(this.items, items);
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
