import { BITS, type Family } from '../../lib/net/address.ts';
import { addressRangeText, type Interval, union } from '../../lib/net/interval.ts';
import { type Part, partition, toggledAt } from './partition.ts';

/** An inclusive range of addresses. IPv4 addresses are numbers, IPv6 addresses bigints. */
export interface AddressRange<N> {
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
