/** Numbers that look random and are the same for equal seeds, on every machine. */
export interface Random {
  /** 0 ≤ x < 1. */
  next(): number;
  /** A whole number, 0 ≤ x < `limit`. */
  below(limit: number): number;
  pick<T>(values: readonly [T, ...T[]]): T;
  /** By shares, which need not add up to 1. */
  weighted<T>(shares: Shares<T>): T;
}

/** Values and how often each is to come, in any unit. */
export type Shares<T> = readonly [readonly [T, number], ...(readonly [T, number])[]];

/**
 * The generator is mulberry32 (Tommy Ettinger, public domain): 32 bits of state, passes gjrand; not
 * for secrets.
 */
export function seededRandom(seed: string): Random {
  let state = hash(seed);
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (limit: number): number => Math.floor(next() * limit);
  return {
    next,
    below,
    pick: (values) => values[below(values.length)] ?? values[0],
    weighted(shares) {
      const sum = shares.reduce((total, [, share]) => total + share, 0);
      let rest = next() * sum;
      for (const [value, share] of shares) {
        rest -= share;
        if (rest < 0) return value;
      }
      return shares[0][0];
    },
  };
}

/** FNV-1a, 32 bits. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (const character of text) value = Math.imul(value ^ (character.codePointAt(0) ?? 0), 0x01000193);
  return value >>> 0;
}
