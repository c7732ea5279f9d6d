import type { NamedSet } from '../ruleset.ts';
import { toSetName } from './name.ts';
import type { IpSet } from './tables.ts';

/** Converts a set of the Ruleset to an ipset. */
export function toIpSet(set: NamedSet): IpSet {
  const type = typeOf(set);
  return { name: toSetName(set, type), family: set.family, type, members: set.members };
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
