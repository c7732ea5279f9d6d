import type { Node } from '../../apis/objects.ts';
import { listChange, sameItems } from '../../lib/sharing/lists.ts';
import { Damper, type DamperOptions } from './damper.ts';

/**
 * Node objects as they are compiled. A node's own credentials may write its labels, addresses and
 * annotations, and each change goes to every node that has it as a peer: see Damper. A new Node
 * counts as a change; a deleted one is removed at once.
 */
export class DampedNodes {
  readonly #damper: Damper<Node>;
  /** As last passed, and as last returned. */
  #given: readonly Node[] = [];
  #nodes: readonly Node[] = [];
  readonly #byName = new Map<string, Node>();

  constructor(options: Omit<DamperOptions<Node>, 'withoutRemoved'>) {
    this.#damper = new Damper({ ...options, withoutRemoved });
  }

  /** Advances to this list, and returns the Nodes to compile; the same array if none changed. */
  advance(nodes: readonly Node[]): readonly Node[] {
    const { removed, added } = listChange(this.#given, nodes);
    this.#given = nodes;
    const names = new Set(added.map(({ name }) => name));
    const changed = new Map<string, Node | null>();
    for (const { name } of removed) {
      if (names.has(name)) continue;
      this.#damper.delete(name);
      changed.set(name, null);
    }
    for (const node of added) changed.set(node.name, this.#damper.set(node.name, node));
    for (const [name, node] of this.#damper.due()) changed.set(name, node);
    let isSame = true;
    for (const [name, node] of changed) {
      if (this.#byName.get(name) === (node ?? undefined)) continue;
      isSame = false;
      if (node === null) this.#byName.delete(name);
      else this.#byName.set(name, node);
    }
    if (isSame) return this.#nodes;
    const list = nodes.flatMap(({ name }) => this.#byName.get(name) ?? []);
    this.#nodes = sameItems(list, nodes) ? nodes : list;
    return this.#nodes;
  }

  close(): void {
    this.#damper.close();
  }
}

/**
 * Without the addresses that the Node no longer has; its labels stay until the rate allows more.
 */
function withoutRemoved(published: Node, wanted: Node): Node {
  const addresses = itemsIn(published.addresses, wanted.addresses);
  return addresses === published.addresses ? published : { ...published, addresses };
}

/** Those items of a list that another one has too; the same list if it has all. */
export function itemsIn(list: readonly string[], other: readonly string[]): readonly string[] {
  const both = list.filter((item) => other.includes(item));
  return both.length === list.length ? list : both;
}
