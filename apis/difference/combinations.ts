/** Sets of small numbers, each set once, as numbers themselves. 0 is the empty set. */
export class Combinations {
  readonly #sets: (readonly number[])[] = [[]];
  readonly #numbers = new Map<string, number>([['', 0]]);
  readonly #unions = new Map<number, Map<number, number>>();

  single(value: number): number {
    return this.#numberOf([value]);
  }

  union(a: number, b: number): number {
    if (a === b || b === 0) return a;
    if (a === 0) return b;
    const known = this.#unions.get(a) ?? new Map<number, number>();
    this.#unions.set(a, known);
    const union = known.get(b) ?? this.#numberOf([...new Set([...this.values(a), ...this.values(b)])]);
    known.set(b, union);
    return union;
  }

  values(set: number): readonly number[] {
    return this.#sets[set] ?? [];
  }

  #numberOf(values: readonly number[]): number {
    const sorted = values.toSorted((a, b) => a - b);
    const key = sorted.join();
    const known = this.#numbers.get(key) ?? this.#sets.push(sorted) - 1;
    this.#numbers.set(key, known);
    return known;
  }
}
