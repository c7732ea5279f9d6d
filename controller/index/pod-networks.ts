import type { Node } from '../../apis/objects.ts';
import { type Address, BITS, type Family, parseCidr } from '../../lib/net/address.ts';

/**
 * The widest networks that count as those of a Node's pods. A wider one would take their addresses
 * from other Nodes.
 */
const WIDEST = { 4: 16, 6: 40 } as const;
/** The networks of the Nodes' pods: which Nodes have one with an address. */
export class PodNetworks {
  /** By family, length and prefix: the names of Nodes. */
  readonly #names: Readonly<Record<Family, Map<number, Map<bigint, Set<string>>>>> = {
    4: new Map(),
    6: new Map(),
  };

  get areNone(): boolean {
    return this.#names[4].size === 0 && this.#names[6].size === 0;
  }

  /** Returns whether a network was added or removed. */
  change({
    removed,
    added,
  }: {
    readonly removed: readonly Node[];
    readonly added: readonly Node[];
  }): boolean {
    const texts = (nodes: readonly Node[]): string[] =>
      nodes.flatMap(({ name, podCIDRs = [] }) => podCIDRs.map((cidr) => `${cidr} ${name}`)).sort();
    if (texts(removed).join() === texts(added).join()) return false;
    for (const node of removed) this.#each(node, (names) => names.delete(node.name));
    for (const node of added) this.#each(node, (names) => names.add(node.name));
    return true;
  }

  of({ family, value }: Address): string[] {
    return [...this.#names[family]].flatMap(([length, byPrefix]) => [
      ...(byPrefix.get(prefixOf(family, value, length)) ?? []),
    ]);
  }

  #each({ podCIDRs = [] }: Node, change: (names: Set<string>) => void): void {
    for (const text of podCIDRs) {
      const cidr = parseCidr(text)?.cidr;
      if (cidr === undefined || cidr.length < WIDEST[cidr.family]) continue;
      const { family, value, length } = cidr;
      const byPrefix = this.#names[family].get(length) ?? new Map<bigint, Set<string>>();
      const prefix = prefixOf(family, value, length);
      const names = byPrefix.get(prefix) ?? new Set();
      change(names);
      if (names.size === 0) byPrefix.delete(prefix);
      else byPrefix.set(prefix, names);
      if (byPrefix.size === 0) this.#names[family].delete(length);
      else this.#names[family].set(length, byPrefix);
    }
  }
}

function prefixOf(family: Family, value: bigint, length: number): bigint {
  return value >> BigInt(BITS[family] - length);
}
