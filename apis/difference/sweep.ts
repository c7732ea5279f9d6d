import type { Range } from '../../lib/net/ranges.ts';
import { firstAt } from '../../lib/sharing/first-at.ts';
import type { Entry, Evaluated } from './entry.ts';
import type { Box } from './service-space.ts';

/** A box of an entry. */
export interface Item extends Box {
  readonly entry: Entry;
  /** In the order of evaluation. */
  readonly place: number;
}

/** The flows with one first number; until the next call of `at`. */
export interface Crossing {
  /** The boxes there, in the order of evaluation. */
  readonly items: readonly Item[];
  /** Whether these flows are failsafe traffic. */
  readonly isProtected: boolean;
}

/** Shared: `at` is called for each cut of all peers. */
const NO_ITEMS: readonly Item[] = [];
const NO_BOXES: readonly Box[] = [];

/** The entries of one state along the first number of a protocol. */
export class Sweep implements Crossing {
  readonly #whole: Box;
  readonly #failsafe: readonly Range[];
  /** Items by where they begin, and by the number after their end. */
  readonly #begins: ReadonlyMap<number, readonly Item[]>;
  readonly #ends: ReadonlyMap<number, readonly Item[]>;
  readonly #active: Item[] = [];
  #isProtected = false;

  constructor(protocol: number, whole: Box, { entries, failsafe }: Evaluated) {
    this.#whole = whole;
    const items: Item[] = [];
    for (const entry of entries) {
      if (entry.boxes === null) items.push({ entry, x: whole.x, y: whole.y, place: items.length });
      else
        for (const { x, y } of entry.boxes.get(protocol) ?? NO_BOXES)
          items.push({ entry, x, y, place: items.length });
    }
    this.#failsafe = failsafe.flatMap((one) => (one.protocol === protocol ? [one.ports] : []));
    this.#begins = Map.groupBy(items, ({ x }) => x[0]);
    this.#ends = Map.groupBy(items, ({ x }) => x[1] + 1);
  }

  /** Where the evaluation may change. */
  cuts(): number[] {
    const ports = this.#failsafe.flatMap(([first, last]) => [Math.max(first, this.#whole.x[0]), last + 1]);
    return [...this.#begins.keys(), ...this.#ends.keys(), ...ports];
  }

  get items(): readonly Item[] {
    return this.#active;
  }

  get isProtected(): boolean {
    return this.#isProtected;
  }

  /** Called for each cut, in ascending order; others may be among them. */
  at(x: number): Crossing {
    for (const item of this.#ends.get(x) ?? NO_ITEMS) this.#active.splice(this.#indexOf(item), 1);
    for (const item of this.#begins.get(x) ?? NO_ITEMS) this.#active.splice(this.#indexOf(item), 0, item);
    this.#isProtected = this.#failsafe.some(([first, last]) => first <= x && x <= last);
    return this;
  }

  #indexOf({ place }: Item): number {
    return firstAt(0, this.#active.length, (i) => (this.#active[i]?.place ?? place) >= place);
  }
}

/** The cuts of several sweeps, and the first number of all, in ascending order. */
export function rangesBetween(sweeps: readonly Sweep[], [first, last]: Range): Range[] {
  const cuts = [...new Set([first, ...sweeps.flatMap((sweep) => sweep.cuts())])].sort((a, b) => a - b);
  return cuts
    .filter((cut) => cut <= last)
    .map((cut, i): Range => [cut, Math.min(last, (cuts[i + 1] ?? Number.POSITIVE_INFINITY) - 1)]);
}
