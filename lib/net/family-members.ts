import type { Cidr, Family } from './address.ts';

/**
 * The members of an AddressSet in one family. No address is in both parts. `singles` are packed as
 * the kernel takes them: network byte order, `WIDTH[family]` bytes each, sorted, without
 * duplicates. 100,000 IPv4 addresses take 400 kB in one allocation.
 */
export interface FamilyMembers {
  readonly family: Family;
  readonly singles: Uint8Array;
  /** Sorted, disjoint, and the fewest that cover the static blocks; none is a single address. */
  readonly prefixes: readonly Cidr[];
}
