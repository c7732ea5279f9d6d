/** How many elements two lists have in common, at the beginning and, behind those, at the end. */
interface Ends {
  readonly first: number;
  readonly last: number;
}

/**
 * Of the same objects. Here and below they are compared by Object.is: V8 reads each object for
 * `===`, to see that it is one, and so drives others out of the caches (ADR 12).
 */
export function alike(before: readonly unknown[], now: readonly unknown[]): Ends {
  if (now.length < LONG) return endsOf(before, now);
  const known = asked.get(now);
  if (known?.before.deref() === before) return known.ends;
  const ends = endsOf(before, now);
  asked.set(now, { before: new WeakRef(before), ends });
  return ends;
}

/**
 * Long lists are compared with the same one by several, one after the other. Nobody changes a list
 * that was compared.
 */
const asked = new WeakMap<
  readonly unknown[],
  { readonly before: WeakRef<readonly unknown[]>; readonly ends: Ends }
>();
const LONG = 256;

function endsOf(before: readonly unknown[], now: readonly unknown[]): Ends {
  const shorter = Math.min(before.length, now.length);
  let first = 0;
  while (first < shorter && Object.is(before[first], now[first])) first++;
  let last = 0;
  while (last < shorter - first && Object.is(before[before.length - 1 - last], now[now.length - 1 - last])) {
    last++;
  }
  return { first, last };
}

/** Whether two lists hold the same objects. */
export function isSameList(before: readonly unknown[], now: readonly unknown[]): boolean {
  return before.length === now.length && alike(before, now).first === now.length;
}

/**
 * What each of two lists has and the other has not: neither at both ends nor, where they are of the
 * same length, in the same place.
 */
export function others<T>(
  before: readonly T[],
  now: readonly T[],
): { readonly gone: readonly T[]; readonly added: readonly T[] } {
  const { first, last } = alike(before, now);
  const inPlace = before.length === now.length;
  const isOther = (i: number): boolean => !inPlace || !Object.is(before[i], now[i]);
  const of = (list: readonly T[]): readonly T[] =>
    list.slice(first, list.length - last).filter((_, i) => isOther(first + i));
  return { gone: of(before), added: of(now) };
}

/** What was made of each element of a list. */
export interface Mapped<T, U> {
  readonly from: readonly T[];
  readonly to: readonly U[];
  /** What was made this time, and what of the last time was not taken over. */
  readonly made: readonly U[];
  readonly gone: readonly U[];
}

/**
 * What `of` makes of each element, taken over from the last time for those that are the same and
 * stand at the beginning, at the end, or, in a list of the same length, in the same place.
 * @param stale whether something is not to be taken over
 */
export function mapAlike<T, U>(
  last: Mapped<T, U> | null,
  now: readonly T[],
  of: (element: T, index: number) => U,
  stale: ((made: U) => boolean) | null = null,
): Mapped<T, U> {
  if (last === null) {
    const all = now.map((element, i) => of(element, i));
    return { from: now, to: all, made: all, gone: [] };
  }
  const common = alike(last.from, now);
  const end = now.length - common.last;
  const moved = last.from.length - now.length;
  const made: U[] = [];
  const gone: U[] = [];
  // Whole stretches are copied: of 10,000 elements nearly all are taken over.
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
  // Edits far apart leave what lies between them in its place.
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
