import { isIPv4 } from 'node:net';
import { type Family, formatAddress, parseAddress } from '../../lib/net/address.ts';

/** `resolved`: asked for by the agent. `learnt`: seen in an answer to somebody else on the node. */
export type NameSource = 'resolved' | 'learnt';

/** An address record; TTL in seconds, as the server gave it. */
export interface AddressRecord {
  readonly address: string;
  readonly ttl: number;
}

/** What is known of one address of a name. Times are the clock's, in milliseconds. */
export interface KnownAddress {
  readonly family: Family;
  /** When its TTL ends. */
  expires: number;
  /** When it was last in an answer. */
  seen: number;
  source: NameSource;
  /**
   * Whether the agent's last answer had it, as far as is known: then it stays until another answer
   * tells.
   */
  isCurrent: boolean;
}

/** What is known of one name. */
export interface NameEntry {
  readonly name: string;
  /** The peers that stand for it. */
  peers: readonly string[];
  readonly addresses: Map<string, KnownAddress>;
  /** Addresses of an earlier run stay until then: what was answered since it ended is not known. */
  grace: number;
  /** Why it doesn't resolve; null as long as it does, or nobody asked. */
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
  /** After the last answer, where nobody knows better; 0 for names that nobody asks for. */
  readonly stale: number;
}

/** Until when an address stays, while nothing more is heard. */
export function staysUntil({ grace }: NameEntry, known: KnownAddress, { keep, stale }: Stay): number {
  const { expires, seen, isCurrent } = known;
  return Math.max(expires, seen + (isCurrent ? Math.max(keep, stale) : keep), grace);
}

/** Why it is still there. */
export function addressState(
  entry: NameEntry,
  { expires, seen }: KnownAddress,
  { now, keep }: { readonly now: number; readonly keep: number },
): AddressState {
  if (expires > now) return 'fresh';
  return Math.max(seen + keep, entry.grace) > now ? 'kept' : 'stale';
}

/**
 * In one spelling; null where it is no address. An IPv4 address in an AAAA record
 * (::ffff:192.0.2.1) is connected to by IPv4.
 */
export function toCanonical(text: string): { readonly family: Family; readonly text: string } | null {
  if (isIPv4(text)) return { family: 4, text };
  const address = parseAddress(text);
  if (address === null) return null;
  const isMapped = address.value >> 32n === 0xffffn;
  const real = isMapped ? ({ family: 4, value: address.value & 0xffff_ffffn } as const) : address;
  return { family: real.family, text: formatAddress(real) };
}
