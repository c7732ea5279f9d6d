/** The pieces of a line that are in the same sets. */
export interface Part {
  /** Sorted. */
  readonly sets: readonly number[];
  /** Indices, in ascending order. */
  readonly pieces: number[];
}

/**
 * Groups the pieces of a line by the sets that they are in. Cost: for each piece, the sets that it
 * is in.
 *
 * @param toggled the sets that begin or end at each piece
 */
export function partition(
  toggled: readonly (readonly number[])[],
  isLeftOut: (piece: number) => boolean = () => false,
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

/** Spreads small numbers over 32 bits (the finalizer of MurmurHash3). */
function mixed(id: number): number {
  let bits = id + 1;
  bits = Math.imul(bits ^ (bits >>> 16), 0x85eb_ca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2_ae35);
  return bits ^ (bits >>> 16);
}
