import type { ListChange } from '../sharing/list-change.ts';

/** The change of one of several lists. */
export interface NamedChange extends ListChange<object> {
  readonly list: string;
  /** The list as it is now; absent: its order does not matter. */
  readonly inOrder?: readonly object[];
}

/** Objects of one list that were removed, and new ones, by number. */
export interface MirrorUpdate {
  readonly list: string;
  readonly removed: readonly number[];
  readonly added: readonly (readonly [number, object])[];
  /** The numbers of the whole list in order. */
  readonly order?: readonly number[];
}

/** The cost of one update, which is then written in a few milliseconds. */
const MOST_AT_ONCE = 500;

/** Sends each object once, as long as it stays the same JavaScript object. */
export class MirrorSender {
  readonly #numbers = new Map<string, Map<object, number>>();
  readonly #costOf: (object: object) => number;
  #last = 0;

  /** @param costOf 1 for a small object */
  constructor(costOf: (object: object) => number) {
    this.#costOf = costOf;
  }

  /** Updates to be sent one after the other; afterwards the other end has the lists as changed. */
  *updates(changes: Iterable<NamedChange>): Generator<MirrorUpdate> {
    for (const { list, removed, added, inOrder } of changes) {
      const numbers = this.#numbers.get(list) ?? new Map<object, number>();
      this.#numbers.set(list, numbers);
      const numberOf = (object: object): number => numbers.get(object) ?? 0;
      if (removed.length > 0) yield { list, removed: removed.map(numberOf), added: [] };
      for (const object of removed) numbers.delete(object);
      let some: [number, object][] = [];
      let cost = 0;
      for (const object of added) {
        numbers.set(object, ++this.#last);
        some.push([this.#last, object]);
        cost += this.#costOf(object);
        if (cost < MOST_AT_ONCE) continue;
        yield { list, removed: [], added: some };
        some = [];
        cost = 0;
      }
      if (inOrder !== undefined) yield { list, removed: [], added: some, order: inOrder.map(numberOf) };
      else if (some.length > 0) yield { list, removed: [], added: some };
    }
  }
}

/** Keeps the lists as the updates say. */
export class MirrorReceiver<Lists extends object> {
  readonly #byList = new Map<string, Map<number, object>>();
  readonly #changed = new Set<string>();
  readonly #share: (object: object) => object;
  #lists: Lists;

  /**
   * @param empty the lists before any update
   * @param share returns an equal object that shares memory with others
   */
  constructor(empty: Lists, share: (object: object) => object = (object) => object) {
    this.#lists = empty;
    this.#share = share;
  }

  receive({ list, removed, added, order }: MirrorUpdate): void {
    const objects = this.#byList.get(list) ?? new Map<number, object>();
    for (const number of removed) objects.delete(number);
    for (const [number, object] of added) objects.set(number, this.#share(object));
    const ordered = order?.map((number) => [number, objects.get(number) ?? {}] as const);
    this.#byList.set(list, ordered === undefined ? objects : new Map(ordered));
    this.#changed.add(list);
  }

  /** Unchanged lists and objects are the same ones, and so is an unchanged state. */
  lists(): Lists {
    if (this.#changed.size === 0) return this.#lists;
    const lists = [...this.#changed].map((list) => [list, [...(this.#byList.get(list)?.values() ?? [])]]);
    this.#changed.clear();
    this.#lists = { ...this.#lists, ...Object.fromEntries(lists) };
    return this.#lists;
  }
}
