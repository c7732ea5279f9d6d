import { commonEnds } from '../../lib/sharing/lists.ts';
import type { NamedSet } from './ruleset.ts';

/**
 * The elements that only one of the two lists has: neither in the common start or end nor, if both
 * have the same length, at the same index. Unlike those of listChange, they include elements that
 * only moved: element by element, `added` takes the place of `gone`.
 */
export function unequalElements<T>(
  before: readonly T[],
  now: readonly T[],
): { readonly gone: readonly T[]; readonly added: readonly T[] } {
  const { first, last } = commonEnds(before, now);
  const inPlace = before.length === now.length;
  const isOther = (i: number): boolean => !inPlace || !Object.is(before[i], now[i]);
  const of = (list: readonly T[]): readonly T[] =>
    list.slice(first, list.length - last).filter((_, i) => isOther(first + i));
  return { gone: of(before), added: of(now) };
}

/** A list, and the result of a function for each element. */
export interface IncrementalMap<T, U> {
  readonly from: readonly T[];
  readonly to: readonly U[];
  /** The results made this time, and the previous results that were not reused. */
  readonly made: readonly U[];
  readonly gone: readonly U[];
}

/**
 * Maps each element with `of`. Reuses previous results for identical elements at the start, at the
 * end or, if both lists have the same length, at the same index.
 * @param stale whether a previous result must not be reused
 */
export function mapIncrementally<T, U>(
  last: IncrementalMap<T, U> | null,
  now: readonly T[],
  of: (element: T, index: number) => U,
  stale: ((made: U) => boolean) | null = null,
): IncrementalMap<T, U> {
  if (last === null) {
    const all = now.map((element, i) => of(element, i));
    return { from: now, to: all, made: all, gone: [] };
  }
  const common = commonEnds(last.from, now);
  const end = now.length - common.last;
  const moved = last.from.length - now.length;
  const made: U[] = [];
  const gone: U[] = [];
  // Copies whole stretches: of 10,000 elements nearly all are reused.
  const takeOver = (from: number, to: number, shift: number): readonly U[] => {
    const before = last.to.slice(from + shift, to + shift);
    if (stale !== null) {
      for (const [i, one] of before.entries()) {
        if (!stale(one)) continue;
        gone.push(one);
        before[i] = of(now[from + i] as T, from + i);
        made.push(before[i] as U);
      }
    }
    return before;
  };
  const first = takeOver(0, common.first, 0);
  // Between edits that are far apart, elements keep their index.
  const isBeside = (i: number): boolean => moved === 0 && Object.is(last.from[i], now[i]);
  const middle: U[] = [];
  for (let i = common.first; i < end + Math.max(0, moved); i++) {
    const before = last.to[i] as U;
    const keeps = isBeside(i);
    if (keeps && !stale?.(before)) {
      middle.push(before);
      continue;
    }
    if (i < end + moved) gone.push(before);
    if (i >= end) continue;
    made.push(of(now[i] as T, i));
    middle.push(made.at(-1) as U);
  }
  const to = first.concat(middle, takeOver(end, now.length, moved));
  return { from: now, to, made, gone };
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
export class NamedList<T extends { readonly name: string }> implements ReadonlyMap<string, T> {
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

/**
 * If there are more sets than this, they have no comments. A comment doubles the memory that the
 * kernel takes for a set (512 or 1,024 bytes), and the kernel walks all sets for each new one and
 * for each rule that names one. Measured with 10,000 sets: 1.65 s without comments, 2.5 s with
 * them.
 */
const MANY_SETS = 2000;

/**
 * The sets that rules refer to, each once, sorted by name. A change costs time in proportion to its
 * size, plus a copy of the list.
 */
export class UsedSets {
  readonly #uses = new Map<string, { set: NamedSet; count: number }>();
  /** Names whose set is another object than in `#last`. */
  readonly #replaced = new Set<string>();
  #hasOtherNames = false;
  #last = new NamedList<NamedSet>([]);
  /** The index of each set in `#last`. */
  #places = new Map<string, number>();
  #hasComments = true;

  /**
   * Adds one use to each set of `more`, and removes one from each of `less`. Throws an Error for a
   * set that is not in use.
   */
  change(more: Iterable<NamedSet>, less: Iterable<NamedSet>): void {
    for (const set of more) {
      const use = this.#uses.get(set.name);
      if (use === undefined) {
        this.#uses.set(set.name, { set, count: 1 });
        this.#hasOtherNames = true;
        continue;
      }
      use.count++;
      if (use.set === set) continue;
      use.set = set;
      this.#replaced.add(set.name);
    }
    for (const { name } of less) {
      const use = this.#uses.get(name);
      if (use === undefined) throw new Error(`set ${name} is not in use`);
      use.count--;
      if (use.count > 0) continue;
      this.#uses.delete(name);
      this.#hasOtherNames = true;
    }
  }

  /** Returns the same list until something changes. */
  sets(): NamedList<NamedSet> {
    const hasComments = this.#uses.size <= MANY_SETS;
    const told = (set: NamedSet): NamedSet => (hasComments ? set : { ...set, comment: null });
    if (this.#hasOtherNames || hasComments !== this.#hasComments) {
      const sorted = [...this.#uses].sort(([a], [b]) => (a < b ? -1 : 1));
      this.#places = new Map(sorted.map(([name], place) => [name, place]));
      this.#last = new NamedList(
        sorted.map(([, { set }]) => this.#same(told(set))),
        this.#last,
      );
    } else if (this.#replaced.size > 0) {
      const next = this.#last.items.slice();
      for (const name of this.#replaced) {
        const [use, place] = [this.#uses.get(name), this.#places.get(name)];
        if (use !== undefined && place !== undefined) next[place] = told(use.set);
      }
      this.#last = new NamedList(next, this.#last);
    }
    this.#hasComments = hasComments;
    this.#hasOtherNames = false;
    this.#replaced.clear();
    return this.#last;
  }

  /** The previous object if it differs only in identity. */
  #same(set: NamedSet): NamedSet {
    const before = this.#last.get(set.name);
    return before?.members === set.members && before.comment === set.comment ? before : set;
  }
}
