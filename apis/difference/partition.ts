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
export interface Ends<N> {
  readonly at: ArrayLike<N>;
  readonly sets: ArrayLike<number>;
}

/**
 * For each piece of a line, the sets that begin or end there: `sets` from one of `starts` to the
 * next.
 */
export interface Toggled {
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
