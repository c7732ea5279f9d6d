import type { Range } from '../../lib/net/ranges.ts';
import { firstAt } from '../../lib/sharing/order.ts';
import type { Evaluated, RuleListEntry } from './entry.ts';
import type { Box } from './service-space.ts';

/** A box of an entry. */
export interface Item extends Box {
  readonly entry: RuleListEntry;
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

/** Items along one of the two numbers. */
export class ItemsAlong {
  /** Items by where they begin, and by the number after their end. */
  readonly #begins: ReadonlyMap<number, readonly Item[]>;
  readonly #ends: ReadonlyMap<number, readonly Item[]>;
  readonly #active: Item[] = [];

  /** @param items in the order of evaluation */
  constructor(items: readonly Item[], number: 'x' | 'y') {
    this.#begins = Map.groupBy(items, (item) => item[number][0]);
    this.#ends = Map.groupBy(items, (item) => item[number][1] + 1);
  }

  /** Where the items change; in any order, some twice. */
  cuts(): number[] {
    return [...this.#begins.keys(), ...this.#ends.keys()];
  }

  /** Those at the number of the last `at`, in the order of evaluation; the same list each time. */
  get items(): readonly Item[] {
    return this.#active;
  }

  /** Called for each cut, in ascending order; other numbers may be among them. */
  at(number: number): readonly Item[] {
    for (const item of this.#ends.get(number) ?? NO_ITEMS) this.#active.splice(this.#indexOf(item), 1);
    for (const item of this.#begins.get(number) ?? NO_ITEMS)
      this.#active.splice(this.#indexOf(item), 0, item);
    return this.#active;
  }

  #indexOf({ place }: Item): number {
    return firstAt(0, this.#active.length, (i) => (this.#active[i]?.place ?? place) >= place);
  }
}

/** The entries of one state along the first number of a protocol. */
export class Sweep implements Crossing {
  readonly #whole: Box;
  readonly #failsafe: readonly Range[];
  readonly #items: ItemsAlong;
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
    this.#items = new ItemsAlong(items, 'x');
  }

  /** Where the evaluation may change. */
  cuts(): number[] {
    const ports = this.#failsafe.flatMap(([first, last]) => [Math.max(first, this.#whole.x[0]), last + 1]);
    return [...this.#items.cuts(), ...ports];
  }

  get items(): readonly Item[] {
    return this.#items.items;
  }

  get isProtected(): boolean {
    return this.#isProtected;
  }

  /** As that of ItemsAlong. */
  at(x: number): Crossing {
    this.#items.at(x);
    this.#isProtected = this.#failsafe.some(([first, last]) => first <= x && x <= last);
    return this;
  }
}

/** The cuts of several sweeps, and the first number of all, in ascending order. */
export function rangesBetween(sweeps: readonly Sweep[], [first, last]: Range): Range[] {
  const cuts = [...new Set([first, ...sweeps.flatMap((sweep) => sweep.cuts())])].sort((a, b) => a - b);
  return cuts
    .filter((cut) => cut <= last)
    .map((cut, i): Range => [cut, Math.min(last, (cuts[i + 1] ?? Number.POSITIVE_INFINITY) - 1)]);
}
