import type { LabelSelector, LabelSelectorRequirement, Labels } from '../../apis/objects.ts';

/**
 * Label selectors as Kubernetes defines them (meta/v1 LabelSelector): all requirements must hold;
 * NotIn and DoesNotExist also hold if the label is absent.
 */

/** All of them must hold; an empty list holds for everything. */
export type Requirements = readonly LabelSelectorRequirement[];

/**
 * matchLabels converted to requirements, sorted, values sorted and unique: equal selectors have
 * equal forms.
 */
export function canonicalRequirements(selector: LabelSelector): LabelSelectorRequirement[] {
  const requirements: LabelSelectorRequirement[] = Object.entries(selector.matchLabels ?? {}).map(
    ([key, value]) => ({ key, operator: 'In', values: [value] }),
  );
  for (const { key, operator, values } of selector.matchExpressions ?? []) {
    const listed = operator === 'In' || operator === 'NotIn';
    requirements.push(listed ? { key, operator, values: [...new Set(values)].sort() } : { key, operator });
  }
  const unique = new Map(requirements.map((requirement) => [formatRequirement(requirement), requirement]));
  return [...unique.keys()].sort().flatMap((text) => unique.get(text) ?? []);
}

/** One line for display and hashing, in kubectl's selector syntax; `{}` selects everything. */
export function formatRequirements(requirements: Requirements): string {
  return requirements.length === 0 ? '{}' : requirements.map(formatRequirement).join(',');
}

function formatRequirement({ key, operator, values = [] }: LabelSelectorRequirement): string {
  switch (operator) {
    case 'In':
      return values.length === 1 ? `${key}=${values[0]}` : `${key} in (${values.join(',')})`;
    case 'NotIn':
      return values.length === 1 ? `${key}!=${values[0]}` : `${key} notin (${values.join(',')})`;
    case 'Exists':
      return key;
    case 'DoesNotExist':
      return `!${key}`;
  }
}

export function holds({ key, operator, values = [] }: LabelSelectorRequirement, labels: Labels): boolean {
  const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
  switch (operator) {
    case 'In':
      return value !== undefined && values.includes(value);
    case 'NotIn':
      return value === undefined || !values.includes(value);
    case 'Exists':
      return value !== undefined;
    case 'DoesNotExist':
      return value === undefined;
  }
}

export function allHold(requirements: Requirements, labels: Labels): boolean {
  for (const requirement of requirements) if (!holds(requirement, labels)) return false;
  return true;
}

/**
 * Finds the selectors that select given labels, in a changing collection; each selector has an
 * owner.
 */
export interface SelectorIndex<T> {
  readonly size: number;
  /** Adds a selector; returns the function that removes it. */
  add(requirements: Requirements, of: T): () => void;
  /**
   * The owners of the selectors that select these labels; twice if two selectors of one owner do.
   *
   * @param found where they are added; default: an empty list
   */
  matching(labels: Labels, found?: T[]): T[];
}

interface Entry<T> {
  readonly requirements: Requirements;
  readonly of: T;
}

/** The selectors indexed under a label key: by Exists, and by single values. */
interface Keyed<T> {
  readonly any: Set<Entry<T>>;
  readonly byValue: Map<string, Set<Entry<T>>>;
}

/**
 * Up to this number, selectors are tested one by one: maps don't pay off for 25,000 indexes of
 * three selectors each.
 */
const FEW = 8;

/**
 * Indexes each selector under one of its In or Exists requirements: the one with the fewest
 * selectors so far. Selectors without such a requirement are tested every time. So a query costs
 * the selectors that share a label with it, not all of them.
 */
export function selectorIndex<T>(): SelectorIndex<T> {
  /** All selectors as long as they are few. */
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
    matching(labels, found = []) {
      const visit = (entries: Iterable<Entry<T>>): void => {
        for (const { requirements, of } of entries) if (allHold(requirements, labels)) found.push(of);
      };
      visit(few);
      many?.visit(labels, visit);
      return found;
    },
  };
}

interface Keys<T> {
  add(entry: Entry<T>): void;
  /** Returns false if there is no such entry. */
  remove(entry: Entry<T>): boolean;
  visit(labels: Labels, at: (entries: Iterable<Entry<T>>) => void): void;
}

function keys<T>(): Keys<T> {
  const byKey = new Map<string, Keyed<T>>();
  const unkeyed = new Set<Entry<T>>();
  /** The requirement that an entry is indexed under; null if there is none. */
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

  /** Exists is the last choice, because every object with the key meets it. */
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
    visit(labels, at) {
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
