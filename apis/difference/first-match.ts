import type { Range } from '../../lib/net/ranges.ts';
import { appendRange, type Ranges, unionRanges } from '../../lib/net/ranges.ts';
import { firstAt } from '../../lib/sharing/first-at.ts';
import type { Direction } from '../objects.ts';
import { take } from './ranges.ts';
import { type Box, OTHER, wholeBox } from './service-space.ts';

/** A rule, or a part of one, in a list that is evaluated in order. */
export interface Entry {
  /** Ascending along the list; the parts of a rule have the same. */
  readonly order: number;
  /** The outcome, as a number that the caller gives it; of a Pass it has no meaning. */
  readonly leaf: number;
  readonly isPass: boolean;
  readonly isBaseline: boolean;
  /** Failsafe traffic skips it. */
  readonly isSkippable: boolean;
  /** The flows it matches, by protocol; null: all. */
  readonly boxes: ReadonlyMap<number, readonly Box[]> | null;
}

/** Failsafe traffic. */
export interface Protected {
  readonly protocol: number;
  readonly ports: Range;
}

/** One of the two states, as it evaluates the flows of one peer. */
export interface Evaluated {
  readonly entries: readonly Entry[];
  readonly failsafe: readonly Protected[];
}

/** The outcome where no rule decides. */
export const DEFAULT_LEAF = 0;

/** Flows of one protocol with the same two outcomes: all combinations of `xs` and `ys`. */
export interface Changed {
  readonly before: number;
  readonly after: number;
  readonly xs: Ranges;
  readonly ys: Ranges;
}

/**
 * The flows of a protocol whose outcomes differ, in disjoint products. Sweeps over the first number
 * of the protocol: n log n for n boxes, times the number of boxes with a second number that overlap.
 */
export function changesOf(
  protocol: number,
  direction: Direction,
  [before, after]: readonly [Evaluated, Evaluated],
  isChange: (before: number, after: number) => boolean,
): Changed[] {
  const whole = wholeBox(protocol, direction);
  const sides = [new Sweep(protocol, whole, before), new Sweep(protocol, whole, after)] as const;
  const cuts = [...new Set([whole.x[0], ...sides[0].cuts(), ...sides[1].cuts()])].sort((a, b) => a - b);
  const found = new Map<string, { before: number; after: number; xs: Range[]; ys: Range[] }>();
  for (const [i, first] of cuts.entries()) {
    if (first > whole.x[1]) break;
    const x: Range = [first, Math.min(whole.x[1], (cuts[i + 1] ?? Number.POSITIVE_INFINITY) - 1)];
    for (const change of compared(sides[0].at(first), sides[1].at(first), isChange)) {
      const key = JSON.stringify([change.before, change.after, change.ys]);
      const known = found.get(key);
      if (known === undefined) found.set(key, { ...change, xs: [x] });
      else appendRange(known.xs, x);
    }
  }
  return [...found.values()];
}

/** An outcome for a range of the second number. */
interface Piece {
  readonly leaf: number;
  readonly range: Range;
}

interface Item extends Box {
  readonly entry: Entry;
}

/** The entries of one side along the first number of a protocol. */
class Sweep {
  readonly #whole: Box;
  /** In the order of evaluation. */
  readonly #items: readonly Item[];
  readonly #failsafe: readonly Range[];
  /** Indices of items, by where they begin, and by the number after their end. */
  readonly #begins: ReadonlyMap<number, readonly number[]>;
  readonly #ends: ReadonlyMap<number, readonly number[]>;
  /** Indices of the items at the current position, ascending. */
  readonly #active: number[] = [];

  constructor(protocol: number, whole: Box, { entries, failsafe }: Evaluated) {
    this.#whole = whole;
    this.#items = entries.flatMap((entry) => {
      const boxes = entry.boxes === null ? [whole] : (entry.boxes.get(protocol) ?? []);
      return boxes.map((box) => ({ entry, ...box }));
    });
    this.#failsafe = failsafe.flatMap((one) => (one.protocol === protocol ? [one.ports] : []));
    const rangeOf = (i: number): Range => this.#items[i]?.x ?? whole.x;
    this.#begins = Map.groupBy(this.#items.keys(), (i) => rangeOf(i)[0]);
    this.#ends = Map.groupBy(this.#items.keys(), (i) => rangeOf(i)[1] + 1);
  }

  /** Where the evaluation may change. */
  cuts(): number[] {
    const ports = this.#failsafe.flatMap(([first, last]) => [Math.max(first, this.#whole.x[0]), last + 1]);
    return [...this.#begins.keys(), ...this.#ends.keys(), ...ports];
  }

  /** The outcomes at a first number. Called for each cut of both sides, in ascending order. */
  at(x: number): Piece[] {
    for (const i of this.#ends.get(x) ?? []) this.#active.splice(this.#place(i), 1);
    for (const i of this.#begins.get(x) ?? []) this.#active.splice(this.#place(i), 0, i);
    const isProtected = this.#failsafe.some(([first, last]) => first <= x && x <= last);
    return this.#evaluate(isProtected);
  }

  #place(item: number): number {
    return firstAt(0, this.#active.length, (i) => (this.#active[i] ?? item) >= item);
  }

  #evaluate(isProtected: boolean): Piece[] {
    const pieces: Piece[] = [];
    const decided = (ranges: Ranges, leaf: number): void => {
      for (const range of ranges) pieces.push({ leaf, range });
    };
    /** Undecided, and those that only the baseline tier may still decide. */
    let open: Range[] = [this.#whole.y];
    const passed: Range[] = [];
    for (const i of this.#active) {
      const item = this.#items[i];
      if (item === undefined || (isProtected && item.entry.isSkippable)) continue;
      const { leaf, isPass, isBaseline } = item.entry;
      // The rules of the baseline tier are the last.
      if (isBaseline && passed.length > 0) open = [...unionRanges([...open, ...passed.splice(0)])];
      if (isPass) passed.push(...take(open, item.y));
      else decided(take(open, item.y), leaf);
      if (open.length === 0 && passed.length === 0) break;
    }
    decided([...open, ...passed], DEFAULT_LEAF);
    return pieces.sort((a, b) => a.range[0] - b.range[0]);
  }
}

/** The changes at one first number. Both lists cover the same range. */
function compared(
  before: readonly Piece[],
  after: readonly Piece[],
  isChange: (before: number, after: number) => boolean,
): { before: number; after: number; ys: Range[] }[] {
  const found = new Map<string, { before: number; after: number; ys: Range[] }>();
  let at = 0;
  for (const { leaf, range } of before) {
    for (; at < after.length; at++) {
      const other = after[at];
      if (other === undefined || other.range[0] > range[1]) break;
      const common: Range = [Math.max(range[0], other.range[0]), Math.min(range[1], other.range[1])];
      if (isChange(leaf, other.leaf)) {
        const key = `${leaf} ${other.leaf}`;
        const known = found.get(key);
        if (known === undefined) found.set(key, { before: leaf, after: other.leaf, ys: [common] });
        else appendRange(known.ys, common);
      }
      if (other.range[1] > range[1]) break;
    }
  }
  return [...found.values()];
}

/** Whether any entry or failsafe port tells flows of a protocol apart from those of OTHER. */
export function isDistinct(protocol: number, { entries, failsafe }: Evaluated): boolean {
  if (protocol === OTHER) return true;
  return (
    entries.some(({ boxes }) => boxes?.has(protocol)) || failsafe.some((one) => one.protocol === protocol)
  );
}
