import type { ClusterObjects, Node } from '../../apis/objects.ts';

/**
 * The public keys of the Nodes' WireGuard devices, as agents report them. Nobody proves that a key
 * is its own, and a device has one peer for each key: a key that another Node has already does not
 * count, until that Node has another one or is deleted. So no Node takes away the tunnel of another
 * one while a controller runs that knows both.
 */
export class TunnelKeys {
  readonly #keys = new Map<string, string>();
  /** The Node of each key. */
  readonly #holders = new Map<string, string>();
  #last: { readonly of: readonly Node[]; readonly nodes: readonly Node[] } | null = null;
  /** The Nodes with keys: the object as given, and as returned. */
  #extended = new Map<string, { readonly node: Node; readonly extended: Node }>();

  /** Sets the key of a Node; null: it has none. */
  report(node: string, key: string | null): 'new' | 'same' | 'taken' {
    const before = this.#keys.get(node) ?? null;
    if (key === before) return 'same';
    if (key !== null && this.#holders.has(key)) return 'taken';
    if (before !== null) this.#holders.delete(before);
    if (key === null) this.#keys.delete(node);
    else this.#keys.set(node, key);
    if (key !== null) this.#holders.set(key, node);
    this.#last = null;
    return 'new';
  }

  /** The Node that has the key. */
  holder(key: string): string | undefined {
    return this.#holders.get(key);
  }

  /** The objects with the keys. Unchanged objects and lists are the same ones. */
  on<T extends Pick<ClusterObjects, 'nodes'>>(objects: T): T {
    if (this.#keys.size === 0) return objects;
    if (this.#last?.of !== objects.nodes)
      this.#last = { of: objects.nodes, nodes: this.#extend(objects.nodes) };
    return { ...objects, nodes: this.#last.nodes };
  }

  #extend(nodes: readonly Node[]): readonly Node[] {
    const before = this.#extended;
    this.#extended = new Map();
    return nodes.map((node) => {
      const tunnelKey = this.#keys.get(node.name);
      if (tunnelKey === undefined) return node;
      const known = before.get(node.name);
      const isSame = known?.node === node && known.extended.tunnelKey === tunnelKey;
      const one = isSame ? known : { node, extended: { ...node, tunnelKey } };
      this.#extended.set(node.name, one);
      return one.extended;
    });
  }
}
