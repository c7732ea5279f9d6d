import type { ClusterObject } from '../../../apis/objects.ts';
import { firstAt } from '../../../lib/sharing/lists.ts';
import { compareObjects } from '../merge.ts';

/**
 * The objects of one kind, sorted; a change results in a new array, otherwise it is the same one.
 */
interface SortedList<T extends ClusterObject> {
  /** `before` is null for an added object, `now` for a removed one. */
  change(before: T | null, now: T | null): void;
  /**
   * The array with all changes so far. Each of a few changes costs a search; together they cost one
   * copy of the array.
   */
  array(): readonly T[];
}

/** More changes than this are merged in one pass; fewer are applied to a copy one by one. */
const FEW = 16;

export function sortedList<T extends ClusterObject>(): SortedList<T> {
  let list: readonly T[] = [];
  const pending = new Map<string, Pending<T>>();
  return {
    change(before, now) {
      const place = now ?? before;
      if (place === null) return;
      const namespace = 'namespace' in place ? place.namespace : '';
      pending.set(`${namespace}/${place.name}`, { place, now });
    },
    array() {
      if (pending.size === 0) return list;
      const changes = [...pending.values()].sort((a, b) => compareObjects(a.place, b.place));
      pending.clear();
      const news = changes.filter(({ place, now }) => {
        const at = lowerBound(list, place);
        const there = list[at];
        return (there !== undefined && compareObjects(there, place) === 0 ? there : null) !== now;
      });
      if (news.length > 0) list = news.length > FEW ? merged(list, news) : edited(list, news);
      return list;
    },
  };
}

interface Pending<T> {
  /** Any version of the object; used for its position. */
  readonly place: T;
  readonly now: T | null;
}

function edited<T extends ClusterObject>(list: readonly T[], changes: readonly Pending<T>[]): readonly T[] {
  const copy = list.slice();
  for (const { place, now } of changes) {
    const at = lowerBound(copy, place);
    const there = copy[at];
    const isThere = there !== undefined && compareObjects(there, place) === 0;
    if (now === null) copy.splice(at, 1);
    else if (isThere) copy[at] = now;
    else copy.splice(at, 0, now);
  }
  return copy;
}

function merged<T extends ClusterObject>(list: readonly T[], changes: readonly Pending<T>[]): readonly T[] {
  const next: T[] = [];
  let from = 0;
  for (const { place, now } of changes) {
    for (; from < list.length; from++) {
      const object = list[from];
      if (object === undefined) continue;
      const order = compareObjects(object, place);
      if (order < 0) next.push(object);
      else {
        if (order === 0) from++;
        break;
      }
    }
    if (now !== null) next.push(now);
  }
  for (; from < list.length; from++) {
    const object = list[from];
    if (object !== undefined) next.push(object);
  }
  return next;
}

/** The index of the first object that doesn't sort before this one. */
function lowerBound<T extends ClusterObject>(list: readonly T[], place: T): number {
  return firstAt(0, list.length, (i) => {
    const object = list[i];
    return object === undefined || compareObjects(object, place) >= 0;
  });
}
