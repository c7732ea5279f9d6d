import type { Family } from '../../../lib/net/address.ts';
import type { NamedSet, SetMembers } from '../ruleset.ts';
import { toSetName } from './name.ts';
import type { IpSet } from './tables.ts';

/**
 * A match of iptables looks up the packet's address, whatever it is: in place of one element such a
 * set has all addresses.
 */
const EVERYTHING: Readonly<Record<Family, SetMembers>> = {
  4: { singles: new Uint8Array(), prefixes: [{ family: 4, value: 0n, length: 0 }] },
  6: { singles: new Uint8Array(), prefixes: [{ family: 6, value: 0n, length: 0 }] },
};

/** Converts a set of the Ruleset to an ipset. */
export function toIpSet(set: NamedSet): IpSet {
  const type = typeOf(set);
  const { family, timeout } = set;
  if (timeout !== undefined)
    return { name: toSetName(set, type), family, type, members: EVERYTHING[family], timeout: timeout / 1000 };
  return { name: toSetName(set, type), family, type, members: set.members };
}

/**
 * A hash:ip of the kernel can't hold the unspecified address (ip_set_hash_ip.c), but a hash:net
 * can.
 */
function typeOf({ key, family, members }: NamedSet): IpSet['type'] {
  if (key === 'service') return 'hash:ip,port';
  const { singles, prefixes } = members;
  const width = family === 4 ? 4 : 16;
  // The members are sorted, so it would be the first.
  const hasUnspecified = singles.length > 0 && singles.subarray(0, width).every((byte) => byte === 0);
  return prefixes.length > 0 || hasUnspecified ? 'hash:net' : 'hash:ip';
}
