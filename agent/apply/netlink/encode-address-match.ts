import { BITS, type Cidr, WIDTH } from '../../../lib/net/address.ts';
import { packAddress } from '../../../lib/net/member-set.ts';
import type { MatchOf } from '../../render/ruleset.ts';
import { DATA_TYPE, prefixElements, typeOf } from './encode-set.ts';
import {
  ADDRESS_OFFSET,
  addAnonymous,
  addCompare,
  addNamedLookup,
  address,
  ORIGINAL_ADDRESS,
  payload,
  REGISTER,
  type RuleEncoding,
  requireFamily,
} from './rule-encoding.ts';

const ADDRESS_TYPE_OF = {
  4: { saddr: typeOf.payload(12, 11), daddr: typeOf.payload(12, 12) },
  6: { saddr: typeOf.payload(13, 8), daddr: typeOf.payload(13, 9) },
} as const;

export function addAddressMatch(
  encoding: RuleEncoding,
  { family, field, in: where }: MatchOf<'address'>,
): void {
  if (field === 'originalDaddr') {
    // The kernel has no such address for a connection of the other family; then the rule does not
    // match.
    encoding.expressions.push(ORIGINAL_ADDRESS[family]);
    if ('cidr' in where) addMasked(encoding, where.cidr, false);
    else addNamedLookup(encoding, where.set);
    return;
  }
  requireFamily(encoding, family);
  if ('cidr' in where) {
    addPrefix(encoding, ADDRESS_OFFSET[family][field], where.cidr, false);
  } else {
    encoding.expressions.push(address(family, field));
    addNamedLookup(encoding, where.set);
  }
}

/** For a prefix of whole bytes only these bytes are loaded. */
function addPrefix(encoding: RuleEncoding, offset: number, cidr: Cidr, negated: boolean): void {
  encoding.expressions.push(payload('network', offset, wholeBytes(cidr) ?? WIDTH[cidr.family]));
  addMasked(encoding, cidr, negated);
}

/**
 * Compares the address in the register: for a prefix of whole bytes only these bytes, for any other
 * the masked address.
 */
function addMasked(encoding: RuleEncoding, cidr: Cidr, negated: boolean): void {
  const bytes = wholeBytes(cidr);
  if (bytes === null) {
    encoding.expressions.push({
      kind: 'bitwise',
      register: REGISTER,
      mask: prefixMask(cidr),
      xor: new Uint8Array(WIDTH[cidr.family]),
    });
  }
  addCompare(encoding, packAddress(cidr).subarray(0, bytes ?? WIDTH[cidr.family]), negated);
}

/** The length of a prefix in bytes; null if it isn't a multiple of 8 bits, or is 0. */
function wholeBytes({ length }: Cidr): number | null {
  return length % 8 === 0 && length > 0 ? length / 8 : null;
}

function prefixMask({ family, length }: Cidr): Uint8Array {
  const ones = (1n << BigInt(length)) - 1n;
  return packAddress({ family, value: ones << BigInt(BITS[family] - length) });
}

export function addNotIn(encoding: RuleEncoding, { family, field, cidrs }: MatchOf<'notIn'>): void {
  requireFamily(encoding, family);
  const [only] = cidrs;
  if (only !== undefined && cidrs.length === 1) {
    addPrefix(encoding, ADDRESS_OFFSET[family][field], only, true);
    return;
  }
  const key = {
    type: DATA_TYPE.address[family],
    length: WIDTH[family],
    typeOf: ADDRESS_TYPE_OF[family][field],
  };
  encoding.expressions.push(address(family, field));
  addAnonymous(encoding, key, prefixElements(cidrs), true);
}

export function addNotInSet(encoding: RuleEncoding, { family, field, set }: MatchOf<'notInSet'>): void {
  requireFamily(encoding, family);
  encoding.expressions.push(address(family, field));
  addNamedLookup(encoding, set, { inverted: true });
}

/** The address of all zeros is looked up, whatever the packet's is. */
export function addPastDeadline(encoding: RuleEncoding, { family, set }: MatchOf<'pastDeadline'>): void {
  requireFamily(encoding, family);
  const zeros = new Uint8Array(WIDTH[family]);
  encoding.expressions.push(address(family, 'saddr'), {
    kind: 'bitwise',
    register: REGISTER,
    mask: zeros,
    xor: zeros,
  });
  addNamedLookup(encoding, set, { inverted: true });
}
