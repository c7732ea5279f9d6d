/** The fqdn peers of policies, and which of them match a name. */
export interface PeerIndex {
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
export function peerIndex(peers: readonly string[]): PeerIndex {
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
