import { isIPv4 } from 'node:net';
import { type Family, formatAddress, parseAddress } from '../../lib/net/address.ts';

/** `resolved`: queried by the agent. `learnt`: seen in an answer to another process on the node. */
export type NameSource = 'resolved' | 'learnt';

/** An address record; TTL in seconds, as sent by the server. */
export interface AddressRecord {
  readonly address: string;
  readonly ttl: number;
}

/** The result of a query for the addresses of one family. */
export type FamilyAnswer =
  | { readonly kind: 'addresses'; readonly records: readonly AddressRecord[] }
  /** The server states that there are none. */
  | { readonly kind: 'none'; readonly reason: string }
  /** Not known: no answer, or no usable one. */
  | { readonly kind: 'failed'; readonly reason: string };

/** The result of the queries for a name. */
export type Resolution = Readonly<Record<Family, FamilyAnswer>>;

/** State of one address of a name. Times are the clock's, in milliseconds. */
export interface KnownAddress {
  readonly family: Family;
  /** When its TTL ends. */
  expires: number;
  /** When it was last in an answer. */
  seen: number;
  source: NameSource;
  /**
   * Whether the agent's last answer contained it, as far as known; it then stays until another
   * answer.
   */
  isCurrent: boolean;
}

/** State of one name. */
export interface NameEntry {
  readonly name: string;
  /** The peers that match it. */
  peers: readonly string[];
  readonly addresses: Map<string, KnownAddress>;
  /**
   * Until when addresses of an earlier run stay at least: answers since that run ended are not
   * known.
   */
  grace: number;
  /** Why it does not resolve; null while it does, or if it was not queried. */
  failing: string | null;
}

export type AddressState = 'fresh' | 'kept' | 'stale';

export function nameEntry(name: string, peers: readonly string[]): NameEntry {
  return {
    name,
    peers,
    addresses: new Map(),
    grace: Number.NEGATIVE_INFINITY,
    failing: null,
  };
}

/** How long addresses stay, in milliseconds. */
interface Stay {
  /** After they were last in an answer. */
  readonly keep: number;
  /**
   * After the last answer, while there is no newer information; 0 for names that the agent does not
   * query.
   */
  readonly stale: number;
}

/** Until when an address stays if no further answer comes. */
export function staysUntil({ grace }: NameEntry, known: KnownAddress, { keep, stale }: Stay): number {
  const { expires, seen, isCurrent } = known;
  return Math.max(expires, seen + (isCurrent ? Math.max(keep, stale) : keep), grace);
}

/**
 * Why an address is still there: fresh (within its TTL), kept (within `keep` or the grace period),
 * or stale.
 */
export function addressState(
  entry: NameEntry,
  { expires, seen }: KnownAddress,
  { now, keep }: { readonly now: number; readonly keep: number },
): AddressState {
  if (expires > now) return 'fresh';
  return Math.max(seen + keep, entry.grace) > now ? 'kept' : 'stale';
}

/**
 * The canonical form of an address; null if the text is not an address. An IPv4 address in an AAAA
 * record (::ffff:192.0.2.1) becomes IPv4, since connections to it use IPv4.
 */
export function toCanonical(text: string): { readonly family: Family; readonly text: string } | null {
  if (isIPv4(text)) return { family: 4, text };
  const address = parseAddress(text);
  if (address === null) return null;
  const isMapped = address.value >> 32n === 0xffffn;
  const real = isMapped ? ({ family: 4, value: address.value & 0xffff_ffffn } as const) : address;
  return { family: real.family, text: formatAddress(real) };
}

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
