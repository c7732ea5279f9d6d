/** Sets of small numbers, each set once, as numbers themselves. */
export class Combinations {
  readonly #sets: (readonly number[])[] = [];
  readonly #numbers = new Map<string, number>();

  /** @param values in any order, each once */
  numberOf(values: readonly number[]): number {
    const sorted = values.toSorted((a, b) => a - b);
    const key = sorted.join();
    const known = this.#numbers.get(key) ?? this.#sets.push(sorted) - 1;
    this.#numbers.set(key, known);
    return known;
  }

  values(set: number): readonly number[] {
    return this.#sets[set] ?? [];
  }
}
