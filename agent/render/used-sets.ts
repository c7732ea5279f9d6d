import { NamedList } from './named-list.ts';
import type { NamedSet } from './ruleset.ts';

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
