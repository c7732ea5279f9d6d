import { isIPv4 } from 'node:net';
import { type Family, formatAddress, parseAddress } from '../../lib/net/address.ts';

/** `resolved`: queried by the agent. `learnt`: seen in an answer to another process on the node. */
export type NameSource = 'resolved' | 'learnt';

/** An address record; TTL in seconds, as sent by the server. */
export interface AddressRecord {
  readonly address: string;
  readonly ttl: number;
}

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
export interface Stay {
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
