import { type Cidr, type Family, lastAddress, WIDTH } from '../../../lib/net/address.ts';
import { packAddress } from '../../../lib/net/member-set.ts';
import type { Peers } from './match-entry.ts';

/**
 * Divides the addresses by the peers that contain them: two addresses are of one class if the same
 * peers contain them. An address that no peer contains has no class.
 */
export interface Classes {
  /** Sorted by key; `peersOf` has indexes into this list. */
  readonly peers: readonly Peers[];
  /** For each class, the peers that contain its addresses, sorted. */
  readonly peersOf: readonly (readonly number[])[];
  /** Classes are numbered in the order of their first occurrence here. */
  readonly tables: readonly ClassTable[];
}

/** The classes of one family's addresses. */
interface ClassTable {
  readonly family: Family;
  /** All addresses that are single members; packed, sorted, unique. */
  readonly singles: Uint8Array;
  /** By index of the single. */
  readonly classOfSingle: Uint32Array;
  /**
   * The ranges of the prefixes, cut where membership changes: packed pairs of first and last
   * address, sorted, disjoint. A single may lie in a range: then its own class counts.
   */
  readonly ranges: Uint8Array;
  readonly classOfRange: Uint32Array;
}

/**
 * A table that also has, for each single, the peers that have it as a single and not only through a
 * prefix, as index into `owners`.
 */
interface WholeTable extends ClassTable {
  readonly ownersOfSingle: Uint32Array;
  readonly owners: readonly (readonly number[])[];
}

interface WholeClasses extends Classes {
  readonly tables: readonly WholeTable[];
}

/**
 * The classes of many peers. From it the classes of some of these peers can be derived at a cost in
 * proportion to their own addresses.
 */
export class PeerAddressSpace {
  readonly #all: WholeClasses;
  readonly #numberOf: ReadonlyMap<string, number>;
  /** For each peer, the classes of its addresses. */
  readonly #classesOf: readonly (readonly number[])[];
  /** By table and class: the sorted indexes of its singles and ranges. */
  readonly #singlesOf: readonly (readonly (readonly number[])[])[];
  readonly #rangesOf: readonly (readonly (readonly number[])[])[];

  /** Cost: members × log members. */
  constructor(given: readonly Peers[]) {
    const peers = [...given].sort((a, b) => (a.key < b.key ? -1 : 1));
    const all = classesOf(peers);
    this.#all = all;
    this.#numberOf = new Map(peers.map(({ key }, i) => [key, i]));
    this.#classesOf = places(
      peers.length,
      all.peersOf.flatMap((list, number) => list.map((peer) => [peer, number] as const)),
    );
    const byClass = (classOf: Uint32Array): number[][] =>
      places(
        all.peersOf.length,
        Array.from(classOf, (number, i) => [number, i] as const),
      );
    this.#singlesOf = all.tables.map(({ classOfSingle }) => byClass(classOfSingle));
    this.#rangesOf = all.tables.map(({ classOfRange }) => byClass(classOfRange));
  }

  /** Whether the space contains these peers with these members. */
  covers(peers: readonly Peers[]): boolean {
    return peers.every(({ key, members }) => {
      const known = this.#all.peers[this.#numberOf.get(key) ?? -1];
      return known !== undefined && known.members === members;
    });
  }

  /** The classes of some of the peers. */
  restrict(peers: readonly Peers[]): Classes {
    if (peers.length === this.#all.peers.length) return this.#all;
    const own = peers.map(({ key }) => this.#numberOf.get(key) ?? 0).sort((a, b) => a - b);
    const numberIn = new Map(own.map((peer, i) => [peer, i]));
    const classes = new ClassNumbers();
    const renumbered = new Map<number, number>();
    for (const number of new Set(own.flatMap((peer) => this.#classesOf[peer] ?? []))) {
      const left = (this.#all.peersOf[number] ?? []).flatMap((peer) => numberIn.get(peer) ?? []);
      renumbered.set(number, classes.number(left));
    }
    const found = [...renumbered.keys()];
    const tables = this.#all.tables.map((whole, t): ClassTable => {
      const isOwned = whole.owners.map((owners) => owners.some((peer) => numberIn.has(peer)));
      const singles = sorted(found.map((number) => this.#singlesOf[t]?.[number] ?? [])).filter(
        (single) => isOwned[whole.ownersOfSingle[single] ?? 0],
      );
      const ranges = sorted(found.map((number) => this.#rangesOf[t]?.[number] ?? []));
      const classOf = (indexes: Uint32Array, of: Uint32Array): Uint32Array =>
        indexes.map((i) => renumbered.get(of[i] ?? 0) ?? 0);
      const width = WIDTH[whole.family];
      return {
        family: whole.family,
        singles: gather(whole.singles, singles, width),
        classOfSingle: classOf(singles, whole.classOfSingle),
        ...joined(gather(whole.ranges, ranges, 2 * width), classOf(ranges, whole.classOfRange), width),
      };
    });
    const ownPeers = own.flatMap((peer) => this.#all.peers[peer] ?? []);
    return { peers: ownPeers, ...inOrder(classes.peersOf, tables) };
  }
}

/** Merges adjacent ranges of one class, which prefixes of other peers may have cut. */
function joined(
  ranges: Uint8Array,
  classOfRange: Uint32Array,
  width: number,
): Pick<ClassTable, 'ranges' | 'classOfRange'> {
  const packed = new Uint8Array(ranges.length);
  const classes: number[] = [];
  for (const [i, number] of classOfRange.entries()) {
    const at = 2 * width * i;
    const end = 2 * width * classes.length;
    const touches =
      classes.at(-1) === number && isNext(packed.subarray(end - width, end), ranges.subarray(at, at + width));
    if (touches) packed.set(ranges.subarray(at + width, at + 2 * width), end - width);
    else {
      packed.set(ranges.subarray(at, at + 2 * width), end);
      classes.push(number);
    }
  }
  return {
    ranges: packed.subarray(0, 2 * width * classes.length),
    classOfRange: Uint32Array.from(classes),
  };
}

/** Whether `b` is the address after `a`. */
function isNext(a: Uint8Array, b: Uint8Array): boolean {
  let carry = 1;
  for (let i = a.length - 1; i >= 0; i--) {
    const sum = (a[i] ?? 0) + carry;
    if ((sum & 255) !== b[i]) return false;
    carry = sum >> 8;
  }
  return carry === 0;
}

/**
 * Renumbers the classes in the order of their first occurrence: equal peers give equal classes,
 * whichever space they come from.
 */
function inOrder<T extends ClassTable>(
  peersOf: readonly (readonly number[])[],
  tables: readonly T[],
): { readonly peersOf: readonly (readonly number[])[]; readonly tables: readonly T[] } {
  const renumbered = new Int32Array(peersOf.length).fill(-1);
  const found: (readonly number[])[] = [];
  const renumber = (classOf: Uint32Array): Uint32Array =>
    classOf.map((number) => {
      if (renumbered[number] === -1) renumbered[number] = found.push(peersOf[number] ?? []) - 1;
      return renumbered[number] ?? 0;
    });
  const ordered = tables.map((one): T => {
    const classOfSingle = renumber(one.classOfSingle);
    return { ...one, classOfSingle, classOfRange: renumber(one.classOfRange) };
  });
  return { peersOf: found, tables: ordered };
}

/** For each index, the second elements of the pairs that begin with it. */
function places(length: number, pairs: readonly (readonly [number, number])[]): number[][] {
  const found: number[][] = Array.from({ length }, () => []);
  for (const [at, value] of pairs) found[at]?.push(value);
  return found;
}

function sorted(lists: readonly (readonly number[])[]): Uint32Array {
  return Uint32Array.from(lists.flat()).sort();
}

function gather(packed: Uint8Array, indexes: Uint32Array, width: number): Uint8Array {
  const found = new Uint8Array(indexes.length * width);
  for (const [i, index] of indexes.entries()) {
    for (let byte = 0; byte < width; byte++) found[i * width + byte] = packed[index * width + byte] ?? 0;
  }
  return found;
}

function classesOf(peers: readonly Peers[]): WholeClasses {
  const classes = new ClassNumbers();
  const tables = ([4, 6] as const).map((family) => table(family, peers, classes));
  return { peers, ...inOrder(classes.peersOf, tables) };
}

function table(family: Family, peers: readonly Peers[], classes: ClassNumbers): WholeTable {
  const own = peers.map(({ members }) => (family === 4 ? members.v4 : members.v6));
  const ranges = cut(
    family,
    own.map(({ prefixes }) => prefixes),
    classes,
  );
  const paths = new Paths();
  const pathOf = new Map<string, number>();
  const width = WIDTH[family];
  for (const [i, { singles }] of own.entries()) {
    const text = Buffer.from(singles.buffer, singles.byteOffset, singles.length).toString('latin1');
    for (let at = 0; at < text.length; at += width) {
      const address = text.slice(at, at + width);
      pathOf.set(address, paths.next(pathOf.get(address) ?? 0, i));
    }
  }
  // Each byte is one code unit, so this is the order of the addresses.
  const addresses = [...pathOf.keys()].sort();
  const classOfSingle = new Uint32Array(addresses.length);
  const ownersOfSingle = new Uint32Array(addresses.length);
  const numberOfPath = new Map<number, number>();
  let at = 0;
  for (const [i, address] of addresses.entries()) {
    while (at < ranges.length && (ranges[at]?.last ?? '') < address) at++;
    const range = ranges[at];
    const around = range !== undefined && range.first <= address ? range.class : null;
    const path = pathOf.get(address) ?? 0;
    classOfSingle[i] = classes.withPath(paths, path, around);
    let number = numberOfPath.get(path);
    if (number === undefined) {
      number = numberOfPath.size;
      numberOfPath.set(path, number);
    }
    ownersOfSingle[i] = number;
  }
  return {
    family,
    singles: bytes(addresses.join('')),
    classOfSingle,
    ownersOfSingle,
    owners: [...numberOfPath.keys()].map((path) => paths.values(path)),
    ranges: bytes(ranges.map(({ first, last }) => first + last).join('')),
    classOfRange: Uint32Array.from(ranges, (range) => range.class),
  };
}

function bytes(text: string): Uint8Array {
  return Uint8Array.from(Buffer.from(text, 'latin1'));
}

/** First and last address as packed bytes, one code unit each. */
interface Range {
  readonly first: string;
  readonly last: string;
  readonly class: number;
}

/** Sweeps the prefixes once. */
function cut(family: Family, prefixes: readonly (readonly Cidr[])[], classes: ClassNumbers): Range[] {
  const events: { at: bigint; peer: number; starts: boolean }[] = [];
  for (const [peer, list] of prefixes.entries()) {
    for (const cidr of list) {
      events.push({ at: cidr.value, peer, starts: true });
      events.push({ at: lastAddress(cidr) + 1n, peer, starts: false });
    }
  }
  events.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
  const active = new Set<number>();
  const found: { first: bigint; last: bigint; class: number }[] = [];
  let from = 0n;
  for (const { at, peer, starts } of events) {
    if (at > from && active.size > 0) {
      const number = classes.number([...active].sort((a, b) => a - b));
      const before = found.at(-1);
      if (before?.class === number && before.last === from - 1n) before.last = at - 1n;
      else found.push({ first: from, last: at - 1n, class: number });
    }
    from = at;
    // If two prefixes of one peer are adjacent, the end of the first was pushed before the start of
    // the second, and sorting is stable.
    if (starts) active.add(peer);
    else active.delete(peer);
  }
  const text = (value: bigint): string => Buffer.from(packAddress({ family, value })).toString('latin1');
  return found.map(({ first, last, class: number }) => ({
    first: text(first),
    last: text(last),
    class: number,
  }));
}

/** Increasing sequences of numbers, each with an id; the empty one has id 0. */
class Paths {
  readonly #parent = [0];
  readonly #last = [-1];
  readonly #next = new Map<number, number>();

  next(path: number, value: number): number {
    const key = path * 2 ** 24 + value;
    let next = this.#next.get(key);
    if (next === undefined) {
      next = this.#parent.length;
      this.#parent.push(path);
      this.#last.push(value);
      this.#next.set(key, next);
    }
    return next;
  }

  values(path: number): number[] {
    const values: number[] = [];
    for (let at = path; at !== 0; at = this.#parent[at] ?? 0) values.push(this.#last[at] ?? 0);
    return values.reverse();
  }
}

class ClassNumbers {
  readonly peersOf: number[][] = [];
  readonly #numbers = new Map<string, number>();
  #joined = new Map<string, number>();
  #paths: Paths | null = null;

  /** The class of these peers, given as sorted indexes. */
  number(peers: number[]): number {
    const key = peers.join();
    let number = this.#numbers.get(key);
    if (number === undefined) {
      number = this.peersOf.length;
      this.peersOf.push(peers);
      this.#numbers.set(key, number);
    }
    return number;
  }

  /**
   * The class of an address that the peers of `path` have as a single, and the peers of the class
   * `around` through a prefix.
   */
  withPath(paths: Paths, path: number, around: number | null): number {
    if (this.#paths !== paths) this.#joined = new Map();
    this.#paths = paths;
    const key = `${path} ${around ?? ''}`;
    let number = this.#joined.get(key);
    if (number === undefined) {
      const others = around === null ? [] : (this.peersOf[around] ?? []);
      number = this.number([...new Set([...paths.values(path), ...others])].sort((a, b) => a - b));
      this.#joined.set(key, number);
    }
    return number;
  }
}
