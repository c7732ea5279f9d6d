import type { Family } from '../../lib/net/address.ts';
import type { AddressRecord } from './name-entry.ts';

/** The result of a query for the addresses of one family. */
export type FamilyAnswer =
  | { readonly kind: 'addresses'; readonly records: readonly AddressRecord[] }
  /** The server states that there are none. */
  | { readonly kind: 'none'; readonly reason: string }
  /** Not known: no answer, or no usable one. */
  | { readonly kind: 'failed'; readonly reason: string };

/** The result of the queries for a name. */
export type Resolution = Readonly<Record<Family, FamilyAnswer>>;

/** The shortest TTL in seconds; null if there is no address. */
export function shortestTTL(resolution: Resolution): number | null {
  const ttls = [resolution[4], resolution[6]].flatMap((answer) =>
    answer.kind === 'addresses' ? answer.records.map(({ ttl }) => ttl) : [],
  );
  return ttls.length === 0 ? null : ttls.reduce((a, b) => Math.min(a, b));
}
