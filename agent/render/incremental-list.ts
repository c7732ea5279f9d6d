import { commonEnds } from '../../lib/sharing/list-change.ts';

/**
 * The elements that only one of the two lists has: neither in the common start or end nor, if both
 * have the same length, at the same index. Unlike those of listChange, they include elements that
 * only moved: element by element, `added` takes the place of `gone`.
 */
export function unequalElements<T>(
  before: readonly T[],
  now: readonly T[],
): { readonly gone: readonly T[]; readonly added: readonly T[] } {
  const { first, last } = commonEnds(before, now);
  const inPlace = before.length === now.length;
  const isOther = (i: number): boolean => !inPlace || !Object.is(before[i], now[i]);
  const of = (list: readonly T[]): readonly T[] =>
    list.slice(first, list.length - last).filter((_, i) => isOther(first + i));
  return { gone: of(before), added: of(now) };
}

/** A list, and the result of a function for each element. */
export interface IncrementalMap<T, U> {
  readonly from: readonly T[];
  readonly to: readonly U[];
  /** The results made this time, and the previous results that were not reused. */
  readonly made: readonly U[];
  readonly gone: readonly U[];
}

/**
 * Maps each element with `of`. Reuses previous results for identical elements at the start, at the
 * end or, if both lists have the same length, at the same index.
 * @param stale whether a previous result must not be reused
 */
export function mapIncrementally<T, U>(
  last: IncrementalMap<T, U> | null,
  now: readonly T[],
  of: (element: T, index: number) => U,
  stale: ((made: U) => boolean) | null = null,
): IncrementalMap<T, U> {
  if (last === null) {
    const all = now.map((element, i) => of(element, i));
    return { from: now, to: all, made: all, gone: [] };
  }
  const common = commonEnds(last.from, now);
  const end = now.length - common.last;
  const moved = last.from.length - now.length;
  const made: U[] = [];
  const gone: U[] = [];
  // Copies whole stretches: of 10,000 elements nearly all are reused.
  const takeOver = (from: number, to: number, shift: number): readonly U[] => {
    const before = last.to.slice(from + shift, to + shift);
    if (stale !== null) {
      for (const [i, one] of before.entries()) {
        if (!stale(one)) continue;
        gone.push(one);
        before[i] = of(now[from + i] as T, from + i);
        made.push(before[i] as U);
      }
    }
    return before;
  };
  const first = takeOver(0, common.first, 0);
  // Between edits that are far apart, elements keep their index.
  const isBeside = (i: number): boolean => moved === 0 && Object.is(last.from[i], now[i]);
  const middle: U[] = [];
  for (let i = common.first; i < end + Math.max(0, moved); i++) {
    const before = last.to[i] as U;
    const keeps = isBeside(i);
    if (keeps && !stale?.(before)) {
      middle.push(before);
      continue;
    }
    if (i < end + moved) gone.push(before);
    if (i >= end) continue;
    made.push(of(now[i] as T, i));
    middle.push(made.at(-1) as U);
  }
  const to = first.concat(middle, takeOver(end, now.length, moved));
  return { from: now, to, made, gone };
}
