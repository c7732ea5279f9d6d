import { appendRange, type Range, type Ranges, unionRanges } from '../../lib/net/interval.ts';
import { firstAt } from '../../lib/sharing/lists.ts';
import { DEFAULT_LEAF, type Evaluated, type RuleListEntry } from './entry.ts';
import { type Box, OTHER, take } from './service-space.ts';

/** Flows of one protocol with the same two outcomes: all combinations of `xs` and `ys`. */
export interface Changed {
  readonly before: number;
  readonly after: number;
  readonly xs: Ranges;
  readonly ys: Ranges;
}

/** How two states are compared. */
export interface Comparing {
  /** Whether two outcomes are different verdicts; by leaf. */
  readonly isChange: (before: number, after: number) => boolean;
  /** An outcome of the first state with which nothing is a change; absent: none. */
  readonly never?: number;
  /** Called often; may throw, which ends the comparison. */
  readonly checkpoint: () => void;
}

/**
 * The flows of a protocol whose outcomes differ, in disjoint products. Sweeps over the first number
 * of the protocol: n log n for n boxes, times the number of boxes with a second number that
 * overlap.
 *
 * @param whole all flows of the protocol
 */
export function changedFlows(
  protocol: number,
  whole: Box,
  [before, after]: readonly [Evaluated, Evaluated],
  { isChange, never, checkpoint }: Comparing,
): Changed[] {
  const sides = [new Sweep(protocol, whole, before), new Sweep(protocol, whole, after)] as const;
  const found = new Map<string, { before: number; after: number; xs: Range[]; ys: Ranges }>();
  const add = (before: number, after: number, ys: Ranges, x: Range): void => {
    const key = `${before} ${after} ${ys.join(' ')}`;
    const known = found.get(key);
    if (known === undefined) found.set(key, { before, after, ys, xs: [x] });
    else appendRange(known.xs, x);
  };
  const wholeY: Ranges = [whole.y];
  for (const x of rangesBetween(sides, whole.x)) {
    checkpoint();
    const [from, to] = [sides[0].at(x[0]), sides[1].at(x[0])];
    const leaf = onlyLeaf(from, whole.y);
    if (leaf !== null && leaf === never) continue;
    const other = onlyLeaf(to, whole.y);
    if (leaf !== null && other !== null) {
      if (isChange(leaf, other)) add(leaf, other, wholeY, x);
      continue;
    }
    for (const change of compared(piecesOf(from, whole.y), piecesOf(to, whole.y), isChange))
      add(change.before, change.after, change.ys, x);
  }
  return [...found.values()];
}

/**
 * The outcome at a first number if it is the same along the second, as far as that is seen at once;
 * else null. It is the usual case, and needs no ranges.
 */
function onlyLeaf({ items, isProtected }: Crossing, whole: Range): number | null {
  for (const { entry, y } of items) {
    if (isProtected && entry.isSkippable) continue;
    if (entry.isPass || y[0] > whole[0] || y[1] < whole[1]) return null;
    return entry.leaf;
  }
  return DEFAULT_LEAF;
}

/** An outcome for a range of the second number. */
interface Piece {
  readonly leaf: number;
  readonly range: Range;
}

/** The outcomes at a first number, along the second. */
function piecesOf({ items, isProtected }: Crossing, whole: Range): Piece[] {
  const pieces: Piece[] = [];
  const decided = (ranges: Ranges, leaf: number): void => {
    for (const range of ranges) pieces.push({ leaf, range });
  };
  /** Undecided, and those that only the baseline tier may still decide. */
  let open: Range[] = [whole];
  const passed: Range[] = [];
  for (const { entry, y } of items) {
    if (isProtected && entry.isSkippable) continue;
    const { leaf, isPass, isBaseline } = entry;
    // The rules of the baseline tier are the last.
    if (isBaseline && passed.length > 0) open = [...unionRanges([...open, ...passed.splice(0)])];
    if (isPass) passed.push(...take(open, y));
    else decided(take(open, y), leaf);
    if (open.length === 0 && passed.length === 0) break;
  }
  decided([...open, ...passed], DEFAULT_LEAF);
  return pieces.sort((a, b) => a.range[0] - b.range[0]);
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

/** A box of an entry. */
export interface Item extends Box {
  readonly entry: RuleListEntry;
  /** In the order of evaluation. */
  readonly place: number;
}

/** The flows with one first number; until the next call of `at`. */
interface Crossing {
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

/** Boxes may have destinations of both families. */
function intersection(range: Range, whole: Range): Range | null {
  if (range[0] >= whole[0] && range[1] <= whole[1]) return range;
  const [first, last] = [Math.max(range[0], whole[0]), Math.min(range[1], whole[1])];
  return first > last ? null : [first, last];
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
        for (const { x, y } of entry.boxes.get(protocol) ?? NO_BOXES) {
          const within = intersection(y, whole.y);
          if (within !== null) items.push({ entry, x, y: within, place: items.length });
        }
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
