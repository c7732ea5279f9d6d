import type { Family } from '../../lib/net/address.ts';
import { BITS } from '../../lib/net/address.ts';
import { union } from '../../lib/net/interval.ts';

/** An inclusive range of addresses. IPv4 addresses are numbers, IPv6 addresses bigints. */
export interface AddressRange<N> {
  readonly first: N;
  readonly last: N;
}

/** All addresses that are in the same sets. */
export interface AddressClass {
  /** Sorted. */
  readonly sets: readonly number[];
  /** The pieces of the address space, as indices in ascending order. */
  readonly pieces: number[];
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

  get family(): Family {
    return this.#numbers.family;
  }

  /** Adds a set, before `classes`. The ranges are disjoint. */
  add(id: number, ranges: readonly AddressRange<N>[]): void {
    this.#sets.push({ id, ranges });
  }

  classes(): readonly AddressClass[] {
    const { zero, end, next, sort, loopback } = this.#numbers;
    const ends = [...this.#sets.flatMap(({ ranges }) => ranges), loopback].flatMap(({ first, last }) => [
      first,
      next(last),
    ]);
    this.#cuts = [...new Set(sort([zero, ...ends]))].filter((cut) => cut < end);
    const index = new Map(this.#cuts.map((cut, i) => [cut, i]));
    const toggled: number[][] = this.#cuts.map(() => []);
    for (const { id, ranges } of this.#sets) {
      for (const { first, last } of ranges) {
        for (const cut of [first, next(last)]) toggled[index.get(cut) ?? -1]?.push(id);
      }
    }
    return classesOf(toggled, (piece) => this.#cuts[piece] === loopback.first);
  }

  /**
   * The addresses of classes, in ascending order, with the loopback addresses where those on both
   * sides are there.
   */
  ranges(classes: readonly AddressClass[]): readonly AddressRange<bigint>[] {
    const { end, previous, toBigInt, loopback } = this.#numbers;
    const pieces = classes.flatMap(({ pieces: own }) => own).sort((a, b) => a - b);
    const ranges = pieces.flatMap((piece) => {
      const first = this.#cuts[piece];
      return first === undefined ? [] : { first, last: previous(this.#cuts[piece + 1] ?? end) };
    });
    const own = union(ranges.map(({ first, last }) => ({ first: toBigInt(first), last: toBigInt(last) })));
    const hole = { first: toBigInt(loopback.first), last: toBigInt(loopback.last) };
    const isInside =
      own.some(({ last }) => last === hole.first - 1n) && own.some(({ first }) => first === hole.last + 1n);
    return isInside ? union([...own, hole]) : own;
  }
}

/** @param toggled the sets that begin or end at each piece */
function classesOf(toggled: readonly number[][], isLeftOut: (piece: number) => boolean): AddressClass[] {
  const classes: AddressClass[] = [];
  const byHash = new Map<number, AddressClass[]>();
  const inside = new Set<number>();
  let hash = 0;
  for (const [piece, ids] of toggled.entries()) {
    for (const id of ids) {
      if (!inside.delete(id)) inside.add(id);
      hash ^= mixed(id);
    }
    if (isLeftOut(piece)) continue;
    const known = byHash.get(hash) ?? [];
    const same = known.find(({ sets }) => sets.length === inside.size && sets.every((id) => inside.has(id)));
    if (same !== undefined) {
      same.pieces.push(piece);
      continue;
    }
    const found: AddressClass = { sets: [...inside].sort((a, b) => a - b), pieces: [piece] };
    classes.push(found);
    byHash.set(hash, [...known, found]);
  }
  return classes;
}

/** Spreads small numbers over 32 bits (the finalizer of MurmurHash3). */
function mixed(id: number): number {
  let bits = id + 1;
  bits = Math.imul(bits ^ (bits >>> 16), 0x85eb_ca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2_ae35);
  return bits ^ (bits >>> 16);
}
