import { type ClusterObject, type ClusterObjects, NO_OBJECTS } from '../../apis/objects.ts';
import { listChange } from '../../lib/sharing/list-change.ts';
import { type Interned, internObject } from '../watch/content.ts';

/** The lists that are compiled. */
const LISTS = [
  ...(['nodes', 'namespaces', 'pods', 'services', 'endpointSlices'] as const),
  ...(['groups', 'tiers', 'policies', 'guardrails'] as const),
] as const satisfies readonly (keyof ClusterObjects)[];
type ListName = (typeof LISTS)[number];

/** Objects of one list that are gone, and new ones, by number. */
export interface MirrorUpdate {
  readonly list: ListName;
  readonly removed: readonly number[];
  readonly added: readonly (readonly [number, ClusterObject])[];
}

/** Objects in one update, which is then written in a few milliseconds. */
const MOST_AT_ONCE = 500;

/** Sends each state of the objects as its difference to the one before. */
export class MirrorSender {
  readonly #numbers = new Map<ClusterObject, number>();
  #last = 0;
  #sent: ClusterObjects = NO_OBJECTS;

  /** Updates to be sent one after the other; afterwards the other end has this state. */
  *updates(objects: ClusterObjects): Generator<MirrorUpdate> {
    for (const list of LISTS) {
      const { removed, added } = listChange<ClusterObject>(this.#sent[list], objects[list]);
      const numbers = removed.map((object) => this.#numbers.get(object) ?? 0);
      for (const object of removed) this.#numbers.delete(object);
      if (numbers.length > 0) yield { list, removed: numbers, added: [] };
      for (let i = 0; i < added.length; i += MOST_AT_ONCE) {
        const some = added.slice(i, i + MOST_AT_ONCE).map((object) => {
          this.#numbers.set(object, ++this.#last);
          return [this.#last, object] as const;
        });
        yield { list, removed: [], added: some };
      }
    }
    this.#sent = objects;
  }
}

/** Keeps the objects as the updates say. */
export class MirrorReceiver {
  readonly #byList = new Map<ListName, Map<number, ClusterObject>>();
  readonly #interned: Interned = new Map();
  readonly #changed = new Set<ListName>();
  #objects = NO_OBJECTS;

  receive({ list, removed, added }: MirrorUpdate): void {
    const objects = this.#byList.get(list) ?? new Map<number, ClusterObject>();
    this.#byList.set(list, objects);
    for (const number of removed) objects.delete(number);
    for (const [number, object] of added) objects.set(number, internObject(object, this.#interned));
    this.#changed.add(list);
  }

  /** Unchanged lists and objects are the same ones, and so is an unchanged state. */
  objects(): ClusterObjects {
    if (this.#changed.size === 0) return this.#objects;
    const lists = [...this.#changed].map((list) => [list, [...(this.#byList.get(list)?.values() ?? [])]]);
    this.#changed.clear();
    this.#objects = { ...this.#objects, ...Object.fromEntries(lists) };
    return this.#objects;
  }
}
