import type { AddressSet } from '../../apis/compiled.ts';
import type { AddressSetPatchUpdate } from '../../apis/stream.ts';
import { type AddressSetMessage, addressSetMessage } from '../../apis/wire.ts';
import { type Address, type Cidr, formatAddress, formatCidr, WIDTH } from '../../lib/net/address.ts';
import {
  diffMembers,
  type FamilyMembers,
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
  const families = [
    [before.members.v4, now.members.v4],
    [before.members.v6, now.members.v6],
  ] as const;
  if (families.every(([was, is]) => sameMembers(was, is))) return null;
  const add: string[] = [];
  const remove: string[] = [];
  for (const [was, is] of families) diffFamily(was, is, add, remove);
  const size = memberCount(now.members.v4) + memberCount(now.members.v6);
  if (add.length + remove.length > size) return addressSetMessage(now);
  return {
    type: 'addressSetPatch',
    id: now.id,
    ...(add.length === 0 ? {} : { add }),
    ...(remove.length === 0 ? {} : { remove }),
  };
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
