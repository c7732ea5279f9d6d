import type { NameEntry } from './name-entry.ts';

/**
 * What each peer stands for: the addresses of all the names it is for. Computed when asked, and
 * only for peers something happened to.
 */
export class PeerUnions {
  #unions = new Map<string, Union>();
  readonly #touched = new Set<Union>();

  /** The peers from now on, without any name. */
  reset(peers: readonly string[]): void {
    const before = this.#unions;
    this.#unions = new Map();
    this.#touched.clear();
    for (const peer of peers) {
      const union = { entries: new Set<NameEntry>(), addresses: before.get(peer)?.addresses ?? [] };
      this.#unions.set(peer, union);
      this.#touched.add(union);
    }
  }

  add(entry: NameEntry): void {
    for (const peer of entry.peers) this.#unions.get(peer)?.entries.add(entry);
    this.touch(entry);
  }

  remove(entry: NameEntry): void {
    for (const peer of entry.peers) this.#unions.get(peer)?.entries.delete(entry);
    this.touch(entry);
  }

  /** Its addresses are others now. */
  touch({ peers }: NameEntry): void {
    for (const peer of peers) {
      const union = this.#unions.get(peer);
      if (union !== undefined) this.#touched.add(union);
    }
  }

  /** Sorted, unique; the same array as long as they are the same. */
  addresses(peer: string): readonly string[] {
    const union = this.#unions.get(peer);
    if (union === undefined) return [];
    // It stays touched: takeChange has to tell of it.
    return this.#touched.has(union) ? addressesOf(union) : union.addresses;
  }

  /** Whether any peer stands for other addresses than the last time this was asked. */
  takeChange(): boolean {
    let changed = false;
    for (const union of this.#touched) {
      const addresses = addressesOf(union);
      if (addresses === union.addresses) continue;
      union.addresses = addresses;
      changed = true;
    }
    this.#touched.clear();
    return changed;
  }
}

interface Union {
  readonly entries: Set<NameEntry>;
  addresses: readonly string[];
}

/** The array there is where it says the same. */
function addressesOf({ entries, addresses: before }: Union): readonly string[] {
  const all = new Set<string>();
  for (const { addresses } of entries) for (const address of addresses.keys()) all.add(address);
  const sorted = [...all].sort();
  const isSame = sorted.length === before.length && sorted.every((address, i) => address === before[i]);
  return isSame ? before : sorted;
}
