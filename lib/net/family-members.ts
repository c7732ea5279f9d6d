import type { Cidr, Family } from './address.ts';

/**
 * The members of an AddressSet in one family. No address is in both parts. `singles` are packed as
 * the kernel takes them: network byte order, `WIDTH[family]` bytes each, sorted, unique; 100,000
 * IPv4 addresses are 400 kB and one allocation.
 */
export interface FamilyMembers {
  readonly family: Family;
  readonly singles: Uint8Array;
  /** Sorted, disjoint and as few as cover the static blocks; none is a single address. */
  readonly prefixes: readonly Cidr[];
}
