import { type Range, unionRanges } from '../../lib/net/interval.ts';
import { addToList, firstAt } from '../../lib/sharing/lists.ts';
import type { Part } from './address-space.ts';
import type { PreparedRule, RuleListEntry } from './entry.ts';
import { overlaps } from './service-space.ts';

/** An entry, and whether its rule is asked about: in a comparison, if the other state lacks it. */
export interface ListEntry extends RuleListEntry {
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

  /**
   * @param rules null: left out
   * @param isOwn by index
   */
  constructor(rules: readonly (PreparedRule | null)[], isOwn: readonly boolean[]) {
    let id = 0;
    for (const [order, rule] of rules.entries()) {
      if (rule === null) continue;
      const entry = (boxes: RuleListEntry['boxes']): ListEntry => ({
        ...rule.outcome,
        id: id++,
        order,
        boxes,
        isOwn: isOwn[order] ?? true,
      });
      const main = entry(rule.boxes);
      if (rule.matchesAny) this.#any.push(main);
      for (const group of rule.groups) addToList(this.#byGroup, group, main);
      for (const set of rule.sets) addToList(this.#bySet, set, main);
      for (const { set, boxes } of rule.parts) addToList(this.#bySet, set, entry(boxes));
      if (rule.destinations.length > 0) {
        this.#further.set(
          main,
          rule.destinations.map(({ set, boxes }) => ({ set, entry: entry(boxes) })),
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

/**
 * The rules without those that match no flow of an own rule's protocols and (first) ports, whatever
 * the peer: where no own rule matches, both lists decide alike with these and without.
 *
 * @param own of both lists
 */
export function relevantRules(
  rules: readonly PreparedRule[],
  isOwn: readonly boolean[],
  own: readonly PreparedRule[],
): { readonly rules: readonly PreparedRule[]; readonly isOwn: readonly boolean[] } {
  const all = own.flatMap((rule) => boxesOf(rule));
  if (all.includes(null)) return { rules, isOwn };
  const spans = new Map(
    [
      ...Map.groupBy(
        all.filter((one) => one !== null),
        ({ protocol }) => protocol,
      ),
    ].map(([protocol, boxes]) => [protocol, unionRanges(boxes.map(({ x }) => x))]),
  );
  const isKept = (rule: PreparedRule, i: number): boolean =>
    isOwn[i] === true ||
    boxesOf(rule).some((one) => one === null || overlaps(spans.get(one.protocol) ?? [], one.x));
  const kept = rules.map(isKept);
  return { rules: rules.filter((_, i) => kept[i]), isOwn: isOwn.filter((_, i) => kept[i]) };
}

/** The boxes that some peer can match; null: all flows. */
function boxesOf(rule: PreparedRule): ({ readonly protocol: number; readonly x: Range } | null)[] {
  const isForPeers = rule.matchesAny || rule.groups.length > 0 || rule.sets.length > 0;
  const named = [...rule.parts, ...rule.destinations].map(({ boxes }) => boxes);
  return [...(isForPeers ? [rule.boxes] : []), ...named].flatMap((boxes) =>
    boxes === null ? [null] : [...boxes].flatMap(([protocol, own]) => own.map(({ x }) => ({ protocol, x }))),
  );
}

/** A longest sequence with ascending places, in n log n. */
function longestAscending<T extends { readonly place: number }>(list: readonly T[]): T[] {
  /** By length - 1: the sequence of that length that ends lowest. */
  const best: { readonly one: T; readonly before: Chain<T> }[] = [];
  for (const one of list) {
    const at = firstAt(0, best.length, (i) => (best[i]?.one.place ?? 0) >= one.place);
    best[at] = { one, before: best[at - 1] ?? null };
  }
  const found: T[] = [];
  for (let at: Chain<T> = best.at(-1) ?? null; at !== null; at = at.before) found.push(at.one);
  return found.reverse();
}

type Chain<T> = { readonly one: T; readonly before: Chain<T> } | null;
