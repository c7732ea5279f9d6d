import type { Family } from '../../lib/net/address.ts';
import type { AddressRecord } from './name-entry.ts';

/** What asking for one family of a name's addresses came to. */
export type FamilyAnswer =
  | { readonly kind: 'addresses'; readonly records: readonly AddressRecord[] }
  /** The server says for certain that there are none. */
  | { readonly kind: 'none'; readonly reason: string }
  /** Nobody knows: no answer, or none that can be used. */
  | { readonly kind: 'failed'; readonly reason: string };

/** What asking for a name came to. */
export type Resolution = Readonly<Record<Family, FamilyAnswer>>;

/** The shortest TTL; null where there is no address. */
export function shortestTTL(resolution: Resolution): number | null {
  const ttls = [resolution[4], resolution[6]].flatMap((answer) =>
    answer.kind === 'addresses' ? answer.records.map(({ ttl }) => ttl) : [],
  );
  return ttls.length === 0 ? null : ttls.reduce((a, b) => Math.min(a, b));
}
