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

/**
 * For each piece of a line, the sets that begin or end there.
 *
 * @param cuts where the pieces begin, sorted
 * @param sets their numbers, and the ends of their ranges: the first, and the one after the last
 */
export function toggledAt<N>(
  cuts: readonly N[],
  sets: Iterable<readonly [set: number, ends: readonly N[]]>,
): readonly (readonly number[])[] {
  const index = new Map(cuts.map((cut, i) => [cut, i]));
  const toggled: number[][] = cuts.map(() => []);
  for (const [set, ends] of sets) for (const cut of ends) toggled[index.get(cut) ?? -1]?.push(set);
  return toggled;
}

/**
 * Groups the pieces of a line by the sets that they are in; incomplete if the budget ends. Cost: for
 * each piece, the sets that it is in.
 *
 * @param toggled the sets that begin or end at each piece
 */
export function partition(
  toggled: readonly (readonly number[])[],
  { isLeftOut = () => false, budget = { left: Number.POSITIVE_INFINITY } }: PartitionOptions = {},
): Part[] {
  const parts: Part[] = [];
  const byHash = new Map<number, Part[]>();
  const inside = new Set<number>();
  let hash = 0;
  for (const [piece, ids] of toggled.entries()) {
    for (const id of ids) {
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
}

/** Spreads small numbers over 32 bits (the finalizer of MurmurHash3). */
function mixed(id: number): number {
  let bits = id + 1;
  bits = Math.imul(bits ^ (bits >>> 16), 0x85eb_ca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2_ae35);
  return bits ^ (bits >>> 16);
}
