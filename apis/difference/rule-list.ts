import type { Entry } from './first-match.ts';
import type { Part } from './partition.ts';
import type { PreparedRule } from './prepared-rule.ts';

/** An entry, and whether the other state lacks it, or has it elsewhere. */
export interface ListEntry extends Entry {
  /** Unique in its list. */
  readonly id: number;
  readonly isOwn: boolean;
}

/** The rules of one direction and kind of traffic, found by what their peers need. */
export class RuleList {
  readonly #any: ListEntry[] = [];
  readonly #byGroup = new Map<number, ListEntry[]>();
  readonly #bySet = new Map<number, ListEntry[]>();
  /** Further entries where the address is in another set besides. */
  readonly #further = new Map<ListEntry, { readonly set: number; readonly entry: ListEntry }[]>();

  /** @param isOwn by index */
  constructor(rules: readonly PreparedRule[], isOwn: readonly boolean[]) {
    let id = 0;
    for (const [order, rule] of rules.entries()) {
      const entry = (boxes: Entry['boxes']): ListEntry => ({
        ...rule.outcome,
        id: id++,
        order,
        boxes,
        isOwn: isOwn[order] ?? true,
      });
      const main = entry(rule.boxes);
      if (rule.matchesAny) this.#any.push(main);
      for (const group of rule.groups) push(this.#byGroup, group, main);
      for (const set of rule.sets) push(this.#bySet, set, main);
      for (const { set, boxes } of rule.parts) push(this.#bySet, set, entry(boxes));
      if (rule.igmpGroups.length > 0) {
        this.#further.set(
          main,
          rule.igmpGroups.map(({ set, boxes }) => ({ set, entry: entry(boxes) })),
        );
      }
    }
  }

  /** The link groups that rules name. */
  groups(): Iterable<number> {
    return this.#byGroup.keys();
  }

  /** The entries for a peer, in order. */
  entriesFor({ sets }: Part, group: number): ListEntry[] {
    const bySet = sets.flatMap((set) => this.#bySet.get(set) ?? []);
    const found = new Set([...this.#any, ...(this.#byGroup.get(group) ?? []), ...bySet]);
    if (this.#further.size > 0) {
      for (const main of [...found]) {
        for (const { set, entry } of this.#further.get(main) ?? []) if (sets.includes(set)) found.add(entry);
      }
    }
    return found.size === this.#any.length ? [...found] : [...found].sort((a, b) => a.order - b.order);
  }
}

function push<K>(map: Map<K, ListEntry[]>, key: K, entry: ListEntry): void {
  const list = map.get(key);
  if (list === undefined) map.set(key, [entry]);
  else list.push(entry);
}

/**
 * Which rules of either list the other one does not have in the same order: the verdict of a flow
 * that none of these matches is the same in both.
 */
export function ownRules(
  before: readonly PreparedRule[],
  after: readonly PreparedRule[],
): readonly [before: boolean[], after: boolean[]] {
  const places = new Map(after.map((rule, i) => [`${rule.id} ${rule.meaning}`, i]));
  const common = before.flatMap((rule, i) => {
    const place = places.get(`${rule.id} ${rule.meaning}`);
    return place === undefined ? [] : [{ i, place }];
  });
  const own = [before.map(() => true), after.map(() => true)] as const;
  for (const { i, place } of longestAscending(common)) {
    own[0][i] = false;
    own[1][place] = false;
  }
  return own;
}

/** A longest sequence with ascending places, in n log n. */
function longestAscending<T extends { readonly place: number }>(list: readonly T[]): T[] {
  /** By length - 1: the sequence of that length that ends lowest. */
  const best: { readonly one: T; readonly before: Chain<T> }[] = [];
  for (const one of list) {
    let low = 0;
    let high = best.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((best[middle]?.one.place ?? 0) < one.place) low = middle + 1;
      else high = middle;
    }
    best[low] = { one, before: best[low - 1] ?? null };
  }
  const found: T[] = [];
  for (let at: Chain<T> = best.at(-1) ?? null; at !== null; at = at.before) found.push(at.one);
  return found.reverse();
}

type Chain<T> = { readonly one: T; readonly before: Chain<T> } | null;
