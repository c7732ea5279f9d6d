/** Sets of small numbers, each set once, as numbers themselves. */
export class Combinations {
  readonly #sets: (readonly number[])[] = [];
  readonly #numbers = new Map<string, number>();
  readonly #unions = new Map<string, number>();

  /** @param values in any order, each once */
  numberOf(values: readonly number[]): number {
    const sorted = values.toSorted((a, b) => a - b);
    const key = sorted.join();
    const known = this.#numbers.get(key) ?? this.#sets.push(sorted) - 1;
    this.#numbers.set(key, known);
    return known;
  }

  /** @param sets disjoint ones */
  union(sets: readonly number[]): number {
    const [first, ...others] = sets;
    if (first !== undefined && others.length === 0) return first;
    const key = sets.join();
    const known = this.#unions.get(key) ?? this.numberOf(sets.flatMap((set) => this.values(set)));
    this.#unions.set(key, known);
    return known;
  }

  values(set: number): readonly number[] {
    return this.#sets[set] ?? [];
  }
}
