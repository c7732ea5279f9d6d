import { BITS, type Family } from '../../lib/net/address.ts';
import { addressRangeText, type Interval, union } from '../../lib/net/interval.ts';

/** An inclusive range of addresses. IPv4 addresses are numbers, IPv6 addresses bigints. */
interface AddressRange<N> {
  readonly first: N;
  readonly last: N;
}

/** How the numbers of one family are compared and counted. */
interface Arithmetic<N> {
  readonly family: Family;
  readonly zero: N;
  /** The first number after the last address. */
  readonly end: N;
  readonly next: (value: N) => N;
  readonly previous: (value: N) => N;
  readonly sort: (values: N[]) => N[];
  readonly toBigInt: (value: N) => bigint;
  /** How many numbers there are from one to before another. */
  readonly count: (from: N, to: N) => number;
  readonly loopback: AddressRange<N>;
}

const IPV4: Arithmetic<number> = {
  family: 4,
  zero: 0,
  end: 2 ** BITS[4],
  next: (value) => value + 1,
  previous: (value) => value - 1,
  sort: (values) => [...Float64Array.from(values).sort()],
  toBigInt: BigInt,
  count: (from, to) => to - from,
  loopback: { first: 0x7f00_0000, last: 0x7fff_ffff },
};

const IPV6: Arithmetic<bigint> = {
  family: 6,
  zero: 0n,
  end: 1n << BigInt(BITS[6]),
  next: (value) => value + 1n,
  previous: (value) => value - 1n,
  sort: (values) => values.sort((a, b) => (a < b ? -1 : a > b ? 1 : 0)),
  toBigInt: (value) => value,
  count: (from, to) => Number(to - from),
  loopback: { first: 1n, last: 1n },
};

type Checkpoint = () => void;

export const ipv4Space = (checkpoint?: Checkpoint): AddressSpace<number> =>
  new AddressSpace(IPV4, checkpoint);
export const ipv6Space = (checkpoint?: Checkpoint): AddressSpace<bigint> =>
  new AddressSpace(IPV6, checkpoint);

/**
 * The addresses of one family, divided into classes by the sets that contain them. Loopback
 * addresses are in none. Cost: n log n for n ranges in all sets, and for each end of a range the
 * number of sets that overlap there.
 */
export class AddressSpace<N extends number | bigint> {
  readonly #numbers: Arithmetic<N>;
  readonly #checkpoint: Checkpoint;
  readonly #sets: { readonly id: number; readonly ranges: readonly AddressRange<N>[] }[] = [];
  /** The first address of each piece. */
  #cuts: readonly N[] = [];
  /**
   * By the pieces where they begin and end: the peers of thousands of rows are made of the same
   * ranges.
   */
  readonly #ranges = new Map<number, AddressRange<bigint>>();
  readonly #texts = new Map<Interval, string>();

  /** @param checkpoint called often by `classes`; may throw */
  constructor(numbers: Arithmetic<N>, checkpoint: Checkpoint = () => {}) {
    this.#numbers = numbers;
    this.#checkpoint = checkpoint;
  }

  /** Adds a set, before `classes`. The ranges are disjoint. */
  add(id: number, ranges: readonly AddressRange<N>[]): void {
    this.#sets.push({ id, ranges });
  }

  classes(): readonly Part[] {
    const { zero, end, next, sort, loopback } = this.#numbers;
    const at: N[] = [];
    const sets: number[] = [];
    for (const { id, ranges } of this.#sets) {
      for (const { first, last } of ranges) {
        at.push(first, next(last));
        sets.push(id, id);
      }
    }
    this.#cuts = [...new Set(sort([zero, ...at, loopback.first, next(loopback.last)]))].filter(
      (cut) => cut < end,
    );
    const isLeftOut = (piece: number): boolean => {
      const first = this.#cuts[piece] ?? end;
      return loopback.first <= first && first <= loopback.last;
    };
    return partition(toggledAt(this.#cuts, { at, sets }), { isLeftOut, checkpoint: this.#checkpoint });
  }

  /** The addresses of a piece; after `classes`. */
  rangeOf(piece: number): AddressRange<bigint> {
    return this.#between(piece, piece + 1);
  }

  /** The share of a class in all addresses. */
  shareOf({ pieces }: Part): number {
    const { family, zero, end, count } = this.#numbers;
    let size = 0;
    for (const piece of pieces) size += count(this.#cuts[piece] ?? zero, this.#cuts[piece + 1] ?? end);
    return size / 2 ** BITS[family];
  }

  /** A range of `ranges`, as in 10.0.0.0-10.0.0.255. */
  text(range: Interval): string {
    const known = this.#texts.get(range) ?? addressRangeText(this.#numbers.family, range);
    this.#texts.set(range, known);
    return known;
  }

  /**
   * The addresses of lists of classes, in ascending order, with the loopback addresses where those
   * on both sides are there.
   */
  ranges(classes: readonly (readonly Part[])[]): readonly AddressRange<bigint>[] {
    const { toBigInt, loopback } = this.#numbers;
    const isIn = new Uint8Array(this.#cuts.length);
    for (const list of classes) for (const { pieces } of list) for (const piece of pieces) isIn[piece] = 1;
    const own: AddressRange<bigint>[] = [];
    for (let piece = isIn.indexOf(1); piece !== -1; piece = isIn.indexOf(1, piece)) {
      const outside = isIn.indexOf(0, piece);
      const next = outside === -1 ? isIn.length : outside;
      own.push(this.#between(piece, next));
      piece = next;
    }
    const hole = { first: toBigInt(loopback.first), last: toBigInt(loopback.last) };
    const isInside =
      own.some(({ last }) => last === hole.first - 1n) && own.some(({ first }) => first === hole.last + 1n);
    return isInside ? union([...own, hole]) : own;
  }

  /** From the first address of a piece to the last before another. */
  #between(piece: number, next: number): AddressRange<bigint> {
    const key = piece * (this.#cuts.length + 1) + next;
    const known = this.#ranges.get(key);
    if (known !== undefined) return known;
    const { zero, end, previous, toBigInt } = this.#numbers;
    const first = toBigInt(this.#cuts[piece] ?? zero);
    const range = { first, last: toBigInt(previous(this.#cuts[next] ?? end)) };
    this.#ranges.set(key, range);
    return range;
  }
}

/** The pieces of a line that are in the same sets. */
export interface Part {
  /** Sorted. */
  readonly sets: readonly number[];
  /** Indices, in ascending order. */
  readonly pieces: number[];
}

/** How many memberships of pieces in sets there may be still; below 0: there were more. */
export interface Budget {
  left: number;
}

/** Where sets begin, and the number after where they end; `sets[i]` is the set of `at[i]`. */
interface Ends<N> {
  readonly at: ArrayLike<N>;
  readonly sets: ArrayLike<number>;
}

/**
 * For each piece of a line, the sets that begin or end there: `sets` from one of `starts` to the
 * next.
 */
interface Toggled {
  readonly starts: Uint32Array;
  readonly sets: Uint32Array;
}

/**
 * In two packed arrays: a list for each piece takes a multiple of the memory, and most of it lives
 * until the partition is done.
 *
 * @param cuts where the pieces begin, sorted; all ends are among them, but for some after the last
 */
export function toggledAt<N>(cuts: ArrayLike<N>, { at, sets }: Ends<N>): Toggled {
  const index = new Map<N, number>();
  for (let i = 0; i < cuts.length; i++) index.set(cuts[i] as N, i);
  const pieceOf = (end: number): number => index.get(at[end] as N) ?? cuts.length;
  // The ends beyond the last cut are counted in a piece that nobody looks at.
  const starts = new Uint32Array(cuts.length + 2);
  for (let i = 0; i < at.length; i++) increment(starts, pieceOf(i) + 1);
  for (let i = 1, sum = 0; i < starts.length; i++) starts[i] = sum += starts[i] ?? 0;
  const next = starts.slice();
  const toggled = new Uint32Array(at.length);
  for (let i = 0; i < at.length; i++) toggled[increment(next, pieceOf(i))] = sets[i] ?? 0;
  return { starts: starts.subarray(0, cuts.length + 1), sets: toggled };
}

/** Returns the number that was there. */
function increment(numbers: Uint32Array, at: number): number {
  const value = numbers[at] ?? 0;
  numbers[at] = value + 1;
  return value;
}

/**
 * Groups the pieces of a line by the sets that they are in; incomplete if the budget ends. Cost:
 * for each piece, the sets that it is in.
 */
export function partition(
  { starts, sets: toggled }: Toggled,
  {
    isLeftOut = () => false,
    budget = { left: Number.POSITIVE_INFINITY },
    checkpoint = () => {},
  }: PartitionOptions = {},
): Part[] {
  const parts: Part[] = [];
  const byHash = new Map<number, Part[]>();
  const inside = new Set<number>();
  let hash = 0;
  for (let piece = 0; piece + 1 < starts.length; piece++) {
    checkpoint();
    const end = starts[piece + 1] ?? 0;
    for (let i = starts[piece] ?? 0; i < end; i++) {
      const id = toggled[i] ?? 0;
      if (!inside.delete(id)) inside.add(id);
      hash ^= mixed(id);
    }
    budget.left -= inside.size;
    if (budget.left < 0) break;
    if (isLeftOut(piece)) continue;
    const known = byHash.get(hash) ?? [];
    const same = known.find(({ sets }) => sets.length === inside.size && sets.every((id) => inside.has(id)));
    if (same !== undefined) {
      same.pieces.push(piece);
      continue;
    }
    const found: Part = { sets: [...inside].sort((a, b) => a - b), pieces: [piece] };
    parts.push(found);
    byHash.set(hash, [...known, found]);
  }
  return parts;
}

interface PartitionOptions {
  readonly isLeftOut?: (piece: number) => boolean;
  readonly budget?: Budget;
  /** Called for each piece; may throw. */
  readonly checkpoint?: () => void;
}

/** Spreads small numbers over 32 bits (the finalizer of MurmurHash3). */
function mixed(id: number): number {
  let bits = id + 1;
  bits = Math.imul(bits ^ (bits >>> 16), 0x85eb_ca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2_ae35);
  return bits ^ (bits >>> 16);
}
