/** The order of texts by UTF-16 code unit, for sort(). */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The order of large numbers, for sort(). */
export function compareBigInts(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * Binary search: the least index from `from` up to `to` at which the condition holds; `to` if it
 * holds nowhere. At all indices after the first it must hold too.
 */
export function firstAt(from: number, to: number, holds: (index: number) => boolean): number {
  let [low, high] = [from, to];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
