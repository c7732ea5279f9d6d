import type { NameEntry } from './name-entry.ts';

/** The fqdn peers of policies, and which of them match a name. */
export interface FqdnPeerIndex {
  /** Peers without a wildcard, sorted. */
  readonly literals: readonly string[];
  /**
   * The peers that match a name; empty if there is none. Cost: one look-up per label, however many
   * peers there are.
   */
  peersOf(name: string): readonly string[];
  has(peer: string): boolean;
}

/** A name has at most 127 labels (RFC 1035, 255 bytes). */
const MAX_LABELS = 127;

/**
 * Indexes peers: lower case, without a trailing dot. `*.example.com` matches names with one or more
 * labels before `.example.com`.
 */
export function fqdnPeerIndex(peers: readonly string[]): FqdnPeerIndex {
  const all = new Set(peers);
  const literals = [...all].filter((peer) => !isWildcard(peer)).sort();
  const hasWildcards = literals.length < all.size;
  return {
    literals,
    has: (peer) => all.has(peer),
    peersOf(name) {
      const found = all.has(name) && !isWildcard(name) ? [name] : [];
      if (!hasWildcards) return found;
      let dot = name.indexOf('.');
      for (let labels = 0; dot > 0 && labels < MAX_LABELS; labels++) {
        const peer = `*${name.slice(dot)}`;
        if (all.has(peer)) found.push(peer);
        dot = name.indexOf('.', dot + 1);
      }
      return found;
    },
  };
}

export function isWildcard(peer: string): boolean {
  return peer.startsWith('*.');
}

/**
 * The addresses of each peer: those of all names that it matches. Computed on demand, and only for
 * peers with changes.
 */
export class PeerUnions {
  #unions = new Map<string, Union>();
  readonly #touched = new Set<Union>();

  /** Sets the peers, without any names. */
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

  /** Marks the peers of an entry whose addresses changed. */
  touch({ peers }: NameEntry): void {
    for (const peer of peers) {
      const union = this.#unions.get(peer);
      if (union !== undefined) this.#touched.add(union);
    }
  }

  /**
   * The addresses of a peer, sorted, without duplicates; the same array while they do not change.
   */
  addresses(peer: string): readonly string[] {
    const union = this.#unions.get(peer);
    if (union === undefined) return [];
    // The peer stays marked, so that takeChange reports it.
    return this.#touched.has(union) ? addressesOf(union) : union.addresses;
  }

  /** Whether the addresses of any peer changed since the last call. */
  consumeChange(): boolean {
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

/** The addresses of all entries; the earlier array if they are the same. */
function addressesOf({ entries, addresses: before }: Union): readonly string[] {
  const all = new Set<string>();
  for (const { addresses } of entries) for (const address of addresses.keys()) all.add(address);
  const sorted = [...all].sort();
  const isSame = sorted.length === before.length && sorted.every((address, i) => address === before[i]);
  return isSame ? before : sorted;
}
