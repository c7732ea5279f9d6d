import type { AddressSet } from '../../apis/compiled.ts';
import type { AddressSetPatchUpdate } from '../../apis/stream.ts';
import { type AddressSetMessage, addressSetMessage } from '../../apis/wire.ts';
import { type Address, type Cidr, formatAddress, formatCidr, WIDTH } from '../../lib/net/address.ts';
import {
  diffMembers,
  type FamilyMembers,
  type MemberSet,
  memberCount,
  sameMembers,
  unpackAddress,
} from '../../lib/net/member-set.ts';

/**
 * The message that changes `before` to `now`: the added and removed members, or the whole set if
 * that is shorter or another field changed. Null if they are equal. The cost is that of the change,
 * not of the members.
 */
export function addressSetUpdate(
  before: AddressSet,
  now: AddressSet,
): AddressSetPatchUpdate | AddressSetMessage | null {
  if (!sameDescription(before, now)) return addressSetMessage(now);
  const { add, remove } = memberDifference(before.members, now.members);
  if (add.length + remove.length === 0) return null;
  const size = memberCount(now.members.v4) + memberCount(now.members.v6);
  if (add.length + remove.length > size) return addressSetMessage(now);
  return {
    type: 'addressSetPatch',
    id: now.id,
    ...(add.length === 0 ? {} : { add }),
    ...(remove.length === 0 ? {} : { remove }),
  };
}

/** The added and removed members; a family without a change costs nothing. */
export function memberDifference(
  before: MemberSet,
  now: MemberSet,
): { readonly add: readonly string[]; readonly remove: readonly string[] } {
  const add: string[] = [];
  const remove: string[] = [];
  for (const family of ['v4', 'v6'] as const) {
    if (!sameMembers(before[family], now[family])) diffFamily(before[family], now[family], add, remove);
  }
  return { add, remove };
}

function sameDescription(a: AddressSet, b: AddressSet): boolean {
  return (
    a.id === b.id &&
    a.description === b.description &&
    a.dynamic === b.dynamic &&
    a.names.length === b.names.length &&
    a.names.every((name, i) => name === b.names[i])
  );
}

function diffFamily(was: FamilyMembers, is: FamilyMembers, add: string[], remove: string[]): void {
  const { family } = is;
  const { added, removed } = diffMembers(was, is);
  add.push(...singlesText(family, added), ...prefixesOnlyIn(is.prefixes, was.prefixes));
  remove.push(...singlesText(family, removed), ...prefixesOnlyIn(was.prefixes, is.prefixes));
}

function* singlesText(family: Address['family'], packed: Uint8Array): Iterable<string> {
  for (let at = 0; at < packed.length; at += WIDTH[family])
    yield formatAddress(unpackAddress(family, packed, at));
}

function prefixesOnlyIn(these: readonly Cidr[], others: readonly Cidr[]): string[] {
  if (these === others || these.length === 0) return [];
  const known = new Set(others.map(formatCidr));
  return these.map(formatCidr).filter((text) => !known.has(text));
}
