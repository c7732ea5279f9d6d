import type { NamedSet } from '../ruleset.ts';
import { toSetName } from './name.ts';
import type { IpSet } from './tables.ts';

/** A set of the Ruleset as ipset has it. */
export function toIpSet(set: NamedSet): IpSet {
  const type = typeOf(set);
  return { name: toSetName(set, type), family: set.family, type, members: set.members };
}

/**
 * The kernel takes no unspecified address into a hash:ip (ip_set_hash_ip.c), but does into a
 * hash:net.
 */
function typeOf({ key, family, members }: NamedSet): IpSet['type'] {
  if (key === 'service') return 'hash:ip,port';
  const { singles, prefixes } = members;
  const width = family === 4 ? 4 : 16;
  // Sorted: it would be the first.
  const hasUnspecified = singles.length > 0 && singles.subarray(0, width).every((byte) => byte === 0);
  return prefixes.length > 0 || hasUnspecified ? 'hash:net' : 'hash:ip';
}
