import type { PortRange } from '../../../apis/compiled.ts';
import { addToList } from '../../../lib/sharing/lists.ts';
import type { MatchEntry } from './match-entry.ts';

/** The ports, cut where the list of rules for them changes. */
export interface PortPieces {
  /** Single ports, sorted, and for each the index of its list. */
  readonly ports: readonly number[];
  readonly planOfPort: readonly number[];
  /** Wider pieces, sorted, and for each the index of its list. */
  readonly ranges: readonly PortRange[];
  readonly planOfRange: readonly number[];
  /** The distinct lists of rules, as sorted indexes into the items. */
  readonly lists: readonly (readonly number[])[];
  /** The rules for the ports of no piece: those for every port. */
  readonly others: readonly number[];
}

/**
 * A piece of at most this many ports becomes single elements of a hash map, where lookups are
 * faster than for ranges.
 */
const EXPAND_PORTS = 8;
const ALL = 65_536;

/**
 * Sweeps the destination or source ports once. Null if the lists have more than `limit` entries in
 * total.
 */
export function portPieces(
  items: readonly MatchEntry[],
  limit: number,
  by: 'ranges' | 'sources' = 'ranges',
): PortPieces | null {
  const everywhere: number[] = [];
  const alone = new Map<number, number | number[]>();
  const starts = new Map<number, number[]>();
  const ends = new Map<number, number[]>();
  for (let i = 0; i < items.length; i++) {
    const ranges = items[i]?.[by] ?? null;
    if (ranges === null) everywhere.push(i);
    else {
      for (const [first, last] of ranges) {
        if (first === last) alone.set(first, withOne(alone.get(first), i));
        else {
          addToList(starts, first, i);
          addToList(ends, last + 1, i);
        }
      }
    }
  }
  const pieces = new Pieces(limit, items.length);
  const points = Float64Array.from(new Set([...starts.keys(), ...ends.keys()])).sort();
  const singles = Float64Array.from(alone.keys()).sort();
  let at = 0;
  const active = new Set<number>();
  /** Adds the pieces between two points; each single port there is a piece of its own. */
  const take = (from: number, to: number): void => {
    const around = active.size > 0 ? merged(everywhere, [...active]) : NONE;
    const beside = around.length > 0 ? around : everywhere;
    let next = from;
    for (; at < singles.length && (singles[at] ?? to) < to; at++) {
      const port = singles[at] ?? 0;
      const own = alone.get(port) ?? NONE;
      if (around.length > 0) pieces.add(next, port - 1, around);
      if (typeof own === 'number' && beside.length === 0) pieces.addOne(port, own);
      else pieces.add(port, port, merged(beside, typeof own === 'number' ? [own] : own));
      next = port + 1;
    }
    pieces.add(next, to - 1, around);
  };
  let before = 0;
  for (const point of points) {
    take(before, point);
    if (pieces.isOver) return null;
    for (const i of ends.get(point) ?? []) active.delete(i);
    for (const i of starts.get(point) ?? []) active.add(i);
    before = point;
  }
  take(before, ALL);
  return pieces.result(everywhere);
}

const NONE: readonly number[] = [];

class Pieces {
  readonly #limit: number;
  readonly #ports: number[] = [];
  readonly #planOfPort: number[] = [];
  readonly #ranges: [number, number][] = [];
  readonly #planOfRange: number[] = [];
  readonly #lists: (readonly number[])[] = [];
  readonly #known = new Map<string, number>();
  /** For each item, the index of the list with this item alone, counted from 1; 0: none. */
  readonly #alone: Uint32Array;
  #entries = 0;

  constructor(limit: number, items: number) {
    this.#limit = limit;
    this.#alone = new Uint32Array(items);
  }

  /** Adds a port that only one item is for. */
  addOne(port: number, item: number): void {
    this.#ports.push(port);
    this.#planOfPort.push(this.#planOfOne(item));
  }

  add(first: number, last: number, members: readonly number[]): void {
    if (first > last || members.length === 0 || this.isOver) return;
    const plan = this.#planOf(members);
    const before = this.#ranges.at(-1);
    if (last - first < EXPAND_PORTS) {
      for (let port = first; port <= last; port++) {
        this.#ports.push(port);
        this.#planOfPort.push(plan);
      }
    } else if (before?.[1] === first - 1 && this.#planOfRange.at(-1) === plan) before[1] = last;
    else {
      this.#ranges.push([first, last]);
      this.#planOfRange.push(plan);
    }
  }

  #planOfOne(item: number): number {
    const known = this.#alone[item] ?? 0;
    if (known > 0) return known - 1;
    this.#entries++;
    const plan = this.#lists.push([item]);
    this.#alone[item] = plan;
    return plan - 1;
  }

  #planOf(members: readonly number[]): number {
    const [only = 0] = members;
    if (members.length === 1) return this.#planOfOne(only);
    const key = members.join();
    let plan = this.#known.get(key);
    if (plan === undefined) {
      plan = this.#lists.push(members) - 1;
      this.#entries += members.length;
      this.#known.set(key, plan);
    }
    return plan;
  }

  get isOver(): boolean {
    return this.#entries > this.#limit;
  }

  result(others: readonly number[]): PortPieces | null {
    if (this.isOver) return null;
    return {
      ports: this.#ports,
      planOfPort: this.#planOfPort,
      ranges: this.#ranges,
      planOfRange: this.#planOfRange,
      lists: this.#lists,
      others,
    };
  }
}

function withOne(list: number | number[] | undefined, value: number): number | number[] {
  if (list === undefined) return value;
  if (typeof list === 'number') return [list, value];
  list.push(value);
  return list;
}

/** Sorted; `b` need not be. */
function merged(a: readonly number[], b: readonly number[]): readonly number[] {
  if (a.length === 0 && b.length < 2) return b;
  return [...a, ...b].sort((x, y) => x - y);
}
