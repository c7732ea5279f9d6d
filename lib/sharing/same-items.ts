/**
 * Whether two lists hold the same objects. Not by `===`: V8 would read each of them, to see that it
 * is one.
 */
export function sameItems<T>(a: readonly T[], b: readonly T[]): boolean {
  return a === b || (a.length === b.length && a.every((item, i) => Object.is(item, b[i])));
}
