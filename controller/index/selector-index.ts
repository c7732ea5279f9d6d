import type { LabelSelectorRequirement, Labels } from '../../apis/objects.ts';
import { allHold, type Requirements } from './selector.ts';

/** Who selects something with these labels: selectors that come and go, each of somebody. */
export interface SelectorIndex<T> {
  readonly size: number;
  /** Takes the selector out again. */
  add(requirements: Requirements, of: T): () => void;
  /** Of whom a selector selects these labels; twice where two do. */
  matching(labels: Labels): T[];
}

interface Entry<T> {
  readonly requirements: Requirements;
  readonly of: T;
}

/** The selectors found by a label key: those for any value, and those for one. */
interface Keyed<T> {
  readonly any: Set<Entry<T>>;
  readonly byValue: Map<string, Set<Entry<T>>>;
}

/**
 * So few are looked at one by one: 25,000 indexes of three selectors each are not worth their maps.
 */
const FEW = 8;

/**
 * Each selector is found by one of its requirements of the kinds In and Exists: by the one that
 * fewest others are found by. What has neither is looked at each time. So labels cost the selectors
 * that say one of them, not all.
 */
export function selectorIndex<T>(): SelectorIndex<T> {
  /** All of them while they are few. */
  const few = new Set<Entry<T>>();
  let many: Keys<T> | null = null;
  let size = 0;
  return {
    get size() {
      return size;
    },
    add(requirements, of) {
      const entry = { requirements, of };
      size++;
      if (many === null && few.size === FEW) {
        many = keys();
        for (const other of few) many.add(other);
        few.clear();
      }
      if (many === null) few.add(entry);
      else many.add(entry);
      return () => {
        if (few.delete(entry) || many?.remove(entry)) size--;
      };
    },
    matching(labels) {
      const found: T[] = [];
      const look = (entries: Iterable<Entry<T>>): void => {
        for (const { requirements, of } of entries) if (allHold(requirements, labels)) found.push(of);
      };
      look(few);
      many?.look(labels, look);
      return found;
    },
  };
}

interface Keys<T> {
  add(entry: Entry<T>): void;
  /** False where it isn't there. */
  remove(entry: Entry<T>): boolean;
  look(labels: Labels, at: (entries: Iterable<Entry<T>>) => void): void;
}

function keys<T>(): Keys<T> {
  const byKey = new Map<string, Keyed<T>>();
  const unkeyed = new Set<Entry<T>>();
  /** The requirement that an entry is found by; null where it is none. */
  const foundBy = new Map<Entry<T>, LabelSelectorRequirement | null>();

  function placesOf({ key, operator, values = [] }: LabelSelectorRequirement): Set<Entry<T>>[] {
    const keyed = byKey.get(key) ?? { any: new Set(), byValue: new Map() };
    byKey.set(key, keyed);
    if (operator === 'Exists') return [keyed.any];
    return values.map((value) => {
      const there = keyed.byValue.get(value) ?? new Set();
      keyed.byValue.set(value, there);
      return there;
    });
  }

  /** Every object with the key meets Exists: the last choice. */
  function crowd({ key, operator, values = [] }: LabelSelectorRequirement): number {
    if (operator === 'Exists') return Number.POSITIVE_INFINITY;
    const { byValue } = byKey.get(key) ?? {};
    return Math.max(0, ...values.map((value) => byValue?.get(value)?.size ?? 0));
  }

  function clean({ key, values = [] }: LabelSelectorRequirement): void {
    const keyed = byKey.get(key);
    if (keyed === undefined) return;
    for (const value of values) if (keyed.byValue.get(value)?.size === 0) keyed.byValue.delete(value);
    if (keyed.any.size === 0 && keyed.byValue.size === 0) byKey.delete(key);
  }

  return {
    add(entry) {
      let by: LabelSelectorRequirement | null = null;
      for (const requirement of entry.requirements) {
        if (requirement.operator !== 'In' && requirement.operator !== 'Exists') continue;
        if (by === null || crowd(requirement) < crowd(by)) by = requirement;
      }
      foundBy.set(entry, by);
      for (const place of by === null ? [unkeyed] : placesOf(by)) place.add(entry);
    },
    remove(entry) {
      const by = foundBy.get(entry);
      if (by === undefined) return false;
      foundBy.delete(entry);
      for (const place of by === null ? [unkeyed] : placesOf(by)) place.delete(entry);
      if (by !== null) clean(by);
      return true;
    },
    look(labels, at) {
      at(unkeyed);
      for (const key of Object.keys(labels)) {
        const keyed = byKey.get(key);
        if (keyed === undefined) continue;
        at(keyed.any);
        at(keyed.byValue.get(labels[key] ?? '') ?? []);
      }
    },
  };
}
