import type { Audience } from './spans.ts';

/** The watchers of each node. A node may have several. */
export class Watchers<T> {
  readonly #byNode = new Map<string, Set<T>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(node: string, watcher: T): void {
    const list = this.#byNode.get(node);
    if (list === undefined) this.#byNode.set(node, new Set([watcher]));
    else list.add(watcher);
    this.#size++;
  }

  remove(node: string, watcher: T): void {
    const list = this.#byNode.get(node);
    if (list?.delete(watcher) !== true) return;
    this.#size--;
    if (list.size === 0) this.#byNode.delete(node);
  }

  *all(): Iterable<readonly [node: string, watcher: T]> {
    for (const [node, list] of this.#byNode) for (const watcher of list) yield [node, watcher];
  }

  /** May return a watcher several times in a row, once for each span. */
  *of(audience: Audience): Iterable<T> {
    if (audience === null) {
      for (const [, watcher] of this.all()) yield watcher;
      return;
    }
    // Iterates over the smaller collection: the watched nodes, or the audience.
    if (audience.reduce((names, span) => names + span.size, 0) > this.#byNode.size) {
      for (const [node, list] of this.#byNode) if (audience.some((span) => span.has(node))) yield* list;
      return;
    }
    for (const span of audience) for (const node of span) yield* this.#byNode.get(node) ?? [];
  }
}
