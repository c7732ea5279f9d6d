/**
 * Whether two lists hold the same objects in the same order. Uses Object.is, since V8 reads each
 * object for `===` to find its type.
 */
export function sameItems<T>(a: readonly T[], b: readonly T[]): boolean {
  return a === b || (a.length === b.length && a.every((item, i) => Object.is(item, b[i])));
}
