import type { AddressSet, ServiceMember, ServiceSet } from '../../apis/compiled.ts';
import { BITS, type Cidr, FAMILIES, type Family, parseAddress } from '../../lib/net/address.ts';
import {
  coversFamily,
  type FamilyMembers,
  memberCount,
  packAddress,
  unpackAddress,
} from '../../lib/net/member-set.ts';
import { memo } from '../../lib/sharing/memo.ts';
import { comment, serviceSetName, setName } from './name.ts';
import { type AddressField, KEY_LENGTH, type Match, type NamedSet } from './ruleset.ts';

/**
 * How an nft rule matches an AddressSet in one family: a set, a single prefix, all addresses, or
 * none.
 */
type AddressMatch =
  | { readonly kind: 'set'; readonly set: NamedSet }
  | { readonly kind: 'cidr'; readonly cidr: Cidr }
  | { readonly kind: 'all' }
  | { readonly kind: 'none' };

/**
 * The matches for AddressSets and ServiceSets. Uses that name the same set share the same NamedSet
 * object.
 */
export class SetMatches {
  readonly #ofAddresses = memo((set: AddressSet): Record<Family, AddressMatch> => {
    return { 4: toAddressMatch(set, 4), 6: toAddressMatch(set, 6) };
  });
  /** The members of a ServiceSet change, so each family has a set, even while it is empty. */
  readonly services = memo(toServiceAlternatives);

  /**
   * The matches for "`field` is in the set", one alternative for each family that can match. A set
   * of all addresses of both families is one alternative without a match.
   */
  addresses(set: AddressSet | null, field: AddressField, families: readonly Family[]): AddressAlternative[] {
    if (set === null) return [ANY_ADDRESS];
    const matches = this.#ofAddresses(set);
    const found = FAMILIES.flatMap((family) => {
      const match = matches[family];
      // The addresses of an FQDN may be of either family.
      const unused = !families.includes(family) && set.names.length === 0;
      const empty = match.kind === 'set' && isEmptySet(match.set);
      return unused && empty ? [] : [[family, match] as const];
    });
    if (found.length === 2 && found.every(([, match]) => match.kind === 'all')) return [ANY_ADDRESS];
    return found.flatMap(([family, match]) => alternative(family, match, field) ?? []);
  }
}

/**
 * A set whose members can change is always a named set, even while empty, so that a change of
 * members never changes rules. A fixed set of one prefix is written into the rule itself: the
 * kernel walks a table's sets one by one.
 */
function toAddressMatch(set: AddressSet, family: Family): AddressMatch {
  const members: FamilyMembers = family === 4 ? set.members.v4 : set.members.v6;
  if (coversFamily(members)) return { kind: 'all' };
  if (!set.dynamic && memberCount(members) === 0) return { kind: 'none' };
  if (!set.dynamic && memberCount(members) === 1) {
    const [prefix] = members.prefixes;
    return {
      kind: 'cidr',
      cidr: prefix ?? { ...unpackAddress(family, members.singles, 0), length: BITS[family] },
    };
  }
  const name = setName(set.id, family);
  const named: NamedSet = {
    name,
    family,
    key: 'address',
    interval: members.prefixes.length > 0,
    members,
    comment: comment(set.description),
  };
  return { kind: 'set', set: named };
}

export function isEmptySet({ members: { singles, prefixes } }: NamedSet): boolean {
  return singles.length === 0 && prefixes.length === 0;
}

export interface AddressAlternative {
  /** Null: both families. */
  readonly family: Family | null;
  readonly matches: readonly Match[];
  /** The named set that the matches refer to; null if none. */
  readonly set: NamedSet | null;
}

export const ANY_ADDRESS: AddressAlternative = { family: null, matches: [], set: null };

function alternative(family: Family, match: AddressMatch, field: AddressField): AddressAlternative | null {
  switch (match.kind) {
    case 'none':
      return null;
    case 'all':
      return { family, matches: [{ match: 'nfproto', family }], set: null };
    case 'cidr':
      return { family, matches: [{ match: 'address', family, field, in: { cidr: match.cidr } }], set: null };
    case 'set': {
      const { set } = match;
      return { family, matches: [{ match: 'address', family, field, in: { set: set.name } }], set };
    }
  }
}

function toServiceAlternatives({ id, description, members }: ServiceSet): AddressAlternative[] {
  return FAMILIES.map((family) => {
    const set: NamedSet = {
      name: serviceSetName(id, family),
      family,
      key: 'service',
      interval: false,
      members: { singles: packServices(family, members), prefixes: [] },
      comment: comment(`services ${description}`),
    };
    return { family, matches: [{ match: 'serviceTuple', family, set: set.name }], set };
  });
}

const PROTOCOL_NUMBERS = { tcp: 6, udp: 17, sctp: 132 } as const;

function packServices(family: Family, members: readonly ServiceMember[]): Uint8Array {
  const keys = members.flatMap(({ address: text, protocol, port }) => {
    const address = parseAddress(text);
    if (address?.family !== family) return [];
    const key = Buffer.alloc(KEY_LENGTH.service[family]);
    key.set(packAddress(address));
    key.writeUInt8(PROTOCOL_NUMBERS[protocol], key.length - 8);
    key.writeUInt16BE(port, key.length - 4);
    return [key];
  });
  keys.sort(Buffer.compare);
  return Buffer.concat(keys.filter((key, i) => i === 0 || !key.equals(keys[i - 1] as Buffer)));
}
