import type { LabelSelectorRequirement, Labels } from '../../apis/objects.ts';
import type { ListChange } from '../../lib/sharing/lists.ts';
import { allHold, type Requirements } from './selector.ts';

/** Objects by keys that several objects may share. */
export interface KeyIndex<T extends object> {
  get(key: string): Iterable<T>;
  has(key: string): boolean;
  keys(): Iterable<string>;
  change(change: ListChange<T>): void;
}

/** A key with more objects than this has a Set. */
const FEW = 8;

/**
 * Most keys have one object, many a few: a Set for each of 100,000 addresses would take 20 MB, and
 * a long time to make.
 */
export function keyIndex<T extends object>(
  items: Iterable<T>,
  keysOf: (item: T) => readonly string[],
): KeyIndex<T> {
  const byKey = new Map<string, T | T[] | Set<T>>();
  const add = (item: T): void => {
    for (const key of keysOf(item)) {
      const there = byKey.get(key);
      if (there === undefined) byKey.set(key, item);
      else if (there instanceof Set) there.add(item);
      else if (Array.isArray(there)) {
        if (there.includes(item)) continue;
        if (there.length < FEW) there.push(item);
        else byKey.set(key, new Set([...there, item]));
      } else if (there !== item) byKey.set(key, [there, item]);
    }
  };
  const remove = (item: T): void => {
    for (const key of keysOf(item)) {
      const there = byKey.get(key);
      if (there === item) byKey.delete(key);
      else if (there instanceof Set) {
        if (there.delete(item) && there.size === 0) byKey.delete(key);
      } else if (Array.isArray(there)) {
        const at = there.indexOf(item);
        if (at < 0) continue;
        there.splice(at, 1);
        if (there.length === 0) byKey.delete(key);
      }
    }
  };
  for (const item of items) add(item);
  return {
    get(key) {
      const there = byKey.get(key);
      if (there === undefined) return [];
      return there instanceof Set || Array.isArray(there) ? there : [there];
    },
    has: (key) => byKey.has(key),
    keys: () => byKey.keys(),
    change({ removed, added }) {
      removed.forEach(remove);
      added.forEach(add);
    },
  };
}

/** Evaluates label selectors over a changing collection of items. */
export interface LabelIndex<T> {
  readonly size: number;
  /** The items that meet all requirements, in no particular order. */
  select(requirements: Requirements): T[];
  /** The number of items that `select` tests. */
  effort(requirements: Requirements): number;
  change(change: ListChange<T>): void;
}

/** The items that have one label key. */
interface Keyed<T> {
  readonly byValue: Map<string, Set<T>>;
  count: number;
}

/**
 * With more keys than this, all are indexed again on demand, because removed selectors named some
 * of them.
 */
const MOST_KEYS = 1000;

/**
 * Maps label keys and values to items. A selector costs the items of its rarest In or Exists
 * requirement, or all items if it has none; a change costs the labels of the changed items. A key
 * is indexed when a selector first names it, by a pass over all items: most keys are never named,
 * and some have a different value for each item. Labels of an item must not change.
 */
export function labelIndex<T extends { readonly labels: Labels }>(items: Iterable<T>): LabelIndex<T> {
  const all = new Set<T>(items);
  const byKey = new Map<string, Keyed<T>>();

  function keyedBy(key: string): Keyed<T> {
    let keyed = byKey.get(key);
    if (keyed === undefined) {
      if (byKey.size >= MOST_KEYS) byKey.clear();
      keyed = { byValue: new Map(), count: 0 };
      for (const item of all) addTo(keyed, key, item);
      byKey.set(key, keyed);
    }
    return keyed;
  }

  /**
   * The number of items that can meet the requirement; null for operators that any item may meet
   * (neither In nor Exists).
   */
  function reach({ key, operator, values = [] }: LabelSelectorRequirement): number | null {
    if (operator !== 'In' && operator !== 'Exists') return null;
    const { byValue, count } = keyedBy(key);
    if (operator === 'Exists') return count;
    return values.reduce((sum, value) => sum + (byValue.get(value)?.size ?? 0), 0);
  }

  function rarest(requirements: Requirements): {
    readonly at: LabelSelectorRequirement | null;
    readonly count: number;
  } {
    let at: LabelSelectorRequirement | null = null;
    let count = all.size;
    for (const requirement of requirements) {
      const reached = reach(requirement);
      if (reached === null || (at !== null && reached >= count)) continue;
      at = requirement;
      count = reached;
    }
    return { at, count };
  }

  /** An item has one value for a key, so it is in at most one of these sets. */
  function candidates(requirement: LabelSelectorRequirement): Iterable<Set<T>> {
    const { byValue } = keyedBy(requirement.key);
    if (requirement.operator === 'Exists') return byValue.values();
    return (requirement.values ?? []).flatMap((value) => byValue.get(value) ?? []);
  }

  return {
    get size() {
      return all.size;
    },
    effort: (requirements) => rarest(requirements).count,
    select(requirements) {
      const { at } = rarest(requirements);
      if (at === null && requirements.length === 0) return [...all];
      const others = requirements.filter((requirement) => requirement !== at);
      const found: T[] = [];
      for (const some of at === null ? [all] : candidates(at)) {
        for (const item of some) if (allHold(others, item.labels)) found.push(item);
      }
      return found;
    },
    change({ removed, added }) {
      const left = removed.filter((item) => all.delete(item));
      const joined = added.filter((item) => !all.has(item));
      for (const item of joined) all.add(item);
      for (const [key, keyed] of byKey) {
        for (const item of left) removeFrom(keyed, key, item);
        for (const item of joined) addTo(keyed, key, item);
      }
    },
  };
}

function addTo<T extends { readonly labels: Labels }>(keyed: Keyed<T>, key: string, item: T): void {
  const { labels } = item;
  if (!Object.hasOwn(labels, key)) return;
  const value = labels[key] ?? '';
  const listed = keyed.byValue.get(value);
  if (listed === undefined) keyed.byValue.set(value, new Set([item]));
  else listed.add(item);
  keyed.count++;
}

function removeFrom<T extends { readonly labels: Labels }>(keyed: Keyed<T>, key: string, item: T): void {
  if (!Object.hasOwn(item.labels, key)) return;
  const value = item.labels[key] ?? '';
  const listed = keyed.byValue.get(value);
  if (listed?.delete(item) !== true) return;
  if (listed.size === 0) keyed.byValue.delete(value);
  keyed.count--;
}
