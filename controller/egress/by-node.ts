type Values = ReadonlyMap<string, string | null>;

/** Ids by node and key, over successive versions: one copies only the nodes that changed. */
export class ByNode {
  #version: ReadonlyMap<string, Values> = new Map();
  readonly #changed = new Map<string, Map<string, string | null>>();

  set(node: string, key: string, id: string | null): void {
    this.#of(node).set(key, id);
  }

  delete(node: string, key: string): void {
    this.#of(node).delete(key);
  }

  /** The version with all changes so far; the last one if there were none. */
  advance(): ReadonlyMap<string, Values> {
    if (this.#changed.size === 0) return this.#version;
    const version = new Map([...this.#version, ...this.#changed]);
    for (const [node, values] of this.#changed) if (values.size === 0) version.delete(node);
    this.#changed.clear();
    this.#version = version;
    return version;
  }

  #of(node: string): Map<string, string | null> {
    let values = this.#changed.get(node);
    if (values === undefined) {
      values = new Map(this.#version.get(node));
      this.#changed.set(node, values);
    }
    return values;
  }
}
