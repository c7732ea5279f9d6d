import { BITS } from '../../lib/net/address.ts';
import { union } from '../../lib/net/interval.ts';
import { type Part, partition, toggledAt } from './partition.ts';

/** An inclusive range of addresses. IPv4 addresses are numbers, IPv6 addresses bigints. */
export interface AddressRange<N> {
  readonly first: N;
  readonly last: N;
}

/** How the numbers of one family are compared and counted. */
interface Arithmetic<N> {
  readonly zero: N;
  /** The first number after the last address. */
  readonly end: N;
  readonly next: (value: N) => N;
  readonly previous: (value: N) => N;
  readonly sort: (values: N[]) => N[];
  readonly toBigInt: (value: N) => bigint;
  readonly loopback: AddressRange<N>;
}

const IPV4: Arithmetic<number> = {
  zero: 0,
  end: 2 ** BITS[4],
  next: (value) => value + 1,
  previous: (value) => value - 1,
  sort: (values) => [...Float64Array.from(values).sort()],
  toBigInt: BigInt,
  loopback: { first: 0x7f00_0000, last: 0x7fff_ffff },
};

const IPV6: Arithmetic<bigint> = {
  zero: 0n,
  end: 1n << BigInt(BITS[6]),
  next: (value) => value + 1n,
  previous: (value) => value - 1n,
  sort: (values) => values.sort((a, b) => (a < b ? -1 : a > b ? 1 : 0)),
  toBigInt: (value) => value,
  loopback: { first: 1n, last: 1n },
};

export const ipv4Space = (): AddressSpace<number> => new AddressSpace(IPV4);
export const ipv6Space = (): AddressSpace<bigint> => new AddressSpace(IPV6);

/**
 * The addresses of one family, divided into classes by the sets that contain them. Loopback
 * addresses are in none. Cost: n log n for n ranges in all sets, and for each end of a range the
 * number of sets that overlap there.
 */
export class AddressSpace<N extends number | bigint> {
  readonly #numbers: Arithmetic<N>;
  readonly #sets: { readonly id: number; readonly ranges: readonly AddressRange<N>[] }[] = [];
  /** The first address of each piece. */
  #cuts: readonly N[] = [];

  constructor(numbers: Arithmetic<N>) {
    this.#numbers = numbers;
  }

  /** Adds a set, before `classes`. The ranges are disjoint. */
  add(id: number, ranges: readonly AddressRange<N>[]): void {
    this.#sets.push({ id, ranges });
  }

  classes(): readonly Part[] {
    const { zero, end, next, sort, loopback } = this.#numbers;
    const endsOf = (ranges: readonly AddressRange<N>[]): N[] =>
      ranges.flatMap(({ first, last }) => [first, next(last)]);
    const sets = this.#sets.map(({ id, ranges }) => [id, endsOf(ranges)] as const);
    const all = [zero, ...sets.flatMap(([, ends]) => ends), ...endsOf([loopback])];
    this.#cuts = [...new Set(sort(all))].filter((cut) => cut < end);
    const isLeftOut = (piece: number): boolean => {
      const first = this.#cuts[piece] ?? end;
      return loopback.first <= first && first <= loopback.last;
    };
    return partition(toggledAt(this.#cuts, sets), { isLeftOut });
  }

  /** The addresses of a piece; after `classes`. */
  rangeOf(piece: number): AddressRange<bigint> {
    const { zero, end, previous, toBigInt } = this.#numbers;
    const first = this.#cuts[piece] ?? zero;
    const next = this.#cuts[piece + 1] ?? end;
    return { first: toBigInt(first), last: toBigInt(previous(next)) };
  }

  /**
   * The addresses of classes, in ascending order, with the loopback addresses where those on both
   * sides are there.
   */
  ranges(classes: readonly Part[]): readonly AddressRange<bigint>[] {
    const { end, previous, toBigInt, loopback } = this.#numbers;
    const isIn = new Uint8Array(this.#cuts.length);
    for (const { pieces } of classes) for (const piece of pieces) isIn[piece] = 1;
    const own: AddressRange<bigint>[] = [];
    for (let piece = isIn.indexOf(1); piece !== -1; piece = isIn.indexOf(1, piece)) {
      const first = this.#cuts[piece] ?? end;
      const outside = isIn.indexOf(0, piece);
      piece = outside === -1 ? isIn.length : outside;
      own.push({ first: toBigInt(first), last: toBigInt(previous(this.#cuts[piece] ?? end)) });
    }
    const hole = { first: toBigInt(loopback.first), last: toBigInt(loopback.last) };
    const isInside =
      own.some(({ last }) => last === hole.first - 1n) && own.some(({ first }) => first === hole.last + 1n);
    return isInside ? union([...own, hole]) : own;
  }
}
