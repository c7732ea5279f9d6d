import type { Expression } from 'nftables-napi';
import { ipProtocolNumber } from '../../../apis/flow.ts';
import { BITS, type Cidr, type Family, WIDTH } from '../../../lib/net/address.ts';
import { packAddress } from '../../../lib/net/member-set.ts';
import type { MatchOf } from '../../render/ruleset.ts';
import {
  concatenated,
  concatenatedElements,
  DATA_TYPE,
  HEADER,
  packPort,
  portElements,
  prefixElements,
  TYPE_OF_PROTOCOL,
  typeOf,
} from './encode-set.ts';
import {
  ADDRESS_OFFSET,
  addAnonymous,
  addCompare,
  addField,
  addNamedLookup,
  addProtocol,
  address,
  bitwise,
  meta,
  ORIGINAL_ADDRESS,
  ORIGINAL_PORT,
  PORT_OFFSET,
  payload,
  port,
  REGISTER,
  type RuleEncoding,
  requireFamily,
  requireIcmp,
  requireProtocol,
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
  if (bytes === null) encoding.expressions.push(bitwise(prefixMask(cidr)));
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
  encoding.expressions.push(address(family, 'saddr'), bitwise(new Uint8Array(WIDTH[family])));
  addNamedLookup(encoding, set, { inverted: true });
}

const PORT_FIELD = { sport: 1, dport: 2 } as const;

export function addPorts(
  encoding: RuleEncoding,
  { protocol, field, ranges, isProtocolKnown }: MatchOf<'port'>,
): void {
  if (!isProtocolKnown) requireProtocol(encoding, protocol);
  const [only] = ranges;
  if (only !== undefined && ranges.length === 1 && only[0] === only[1]) {
    addField(encoding, PORT_OFFSET[field], packPort(only[0]));
    return;
  }
  encoding.expressions.push(port(field));
  const header = isProtocolKnown ? HEADER.th : HEADER[protocol];
  addPortRanges(encoding, ranges, typeOf.payload(header, PORT_FIELD[field]));
}

export function addOriginalPorts(
  encoding: RuleEncoding,
  { protocol, ranges }: MatchOf<'originalPort'>,
): void {
  addProtocol(encoding, protocol);
  encoding.expressions.push(ORIGINAL_PORT);
  // Without the origin, which nft 1.0.6 records and then cannot print: it has no type for `ct
  // original proto-dst`.
  addPortRanges(encoding, ranges);
}

/** Compares the port in the register. */
function addPortRanges(encoding: RuleEncoding, ranges: MatchOf<'port'>['ranges'], origin?: Uint8Array): void {
  const [only] = ranges;
  if (only !== undefined && ranges.length === 1) {
    const [first, last] = only;
    if (first === last) {
      addCompare(encoding, packPort(first), false);
      return;
    }
    encoding.expressions.push(
      { kind: 'cmp', register: REGISTER, operator: 'gte', value: packPort(first) },
      { kind: 'cmp', register: REGISTER, operator: 'lte', value: packPort(last) },
    );
    return;
  }
  const key = { type: DATA_TYPE.port, length: 2, ...(origin === undefined ? {} : { typeOf: origin }) };
  addAnonymous(encoding, key, portElements(ranges));
}

/**
 * Each field after the first begins at the next multiple of 4 bytes: register 9 is the second
 * 32-bit piece of register 1, 10 the third.
 */
export function addPortTuples(
  encoding: RuleEncoding,
  { withSourcePort, tuples }: MatchOf<'portTuple'>,
): void {
  const fields = withSourcePort ? (['sport', 'dport'] as const) : (['dport'] as const);
  const ends = tuples.map(({ protocol, sourcePorts, ports }) => {
    const ranges = withSourcePort ? [sourcePorts, ports] : [ports];
    return ([0, 1] as const).map((end) =>
      Uint8Array.from([
        ...[ipProtocolNumber(protocol), 0, 0, 0],
        ...ranges.flatMap((range) => [...packPort(range[end]), 0, 0]),
      ]),
    );
  });
  const interval = ends.some(
    ([first, last]) => Buffer.compare(first as Uint8Array, last as Uint8Array) !== 0,
  );
  const types = [DATA_TYPE.protocol, ...fields.map(() => DATA_TYPE.port)];
  const origin = typeOf.concatenation(
    TYPE_OF_PROTOCOL,
    ...fields.map((field) => typeOf.payload(HEADER.th, PORT_FIELD[field])),
  );
  encoding.expressions.push(meta('l4proto'));
  // Where there are ranges, libnftables 1.0.6 also changes the byte order of the single byte, which
  // has no effect and Linux 6.12.117 and 7.2 refuse (1.1.3 does not); so it records no origin of
  // the key.
  encoding.expressions.push(...fields.map((field, i) => port(field, 9 + i)));
  const key = {
    type: concatenated(...types),
    length: 4 * types.length,
    fields: [1, ...fields.map(() => 2)],
    ...(interval ? {} : { typeOf: origin }),
  };
  addAnonymous(encoding, key, concatenatedElements(ends, interval));
}

/**
 * Loads address, protocol and port side by side. After a 4-byte address they are in the 32-bit
 * registers 9 and 10, after a 16-byte one in register 2, which is the 32-bit register 12, and in
 * 13.
 */
const SERVICE: Readonly<Record<Family, readonly Expression[]>> = {
  4: [address(4, 'daddr'), { kind: 'meta', key: 'l4proto', register: 9 }, port('dport', 10)],
  6: [address(6, 'daddr'), { kind: 'meta', key: 'l4proto', register: 2 }, port('dport', 13)],
};

export function addService(encoding: RuleEncoding, { family, set }: MatchOf<'serviceTuple'>): void {
  requireFamily(encoding, family);
  encoding.expressions.push(...SERVICE[family]);
  addNamedLookup(encoding, set);
}

export function addIcmp(encoding: RuleEncoding, { protocol, types }: MatchOf<'icmp'>): void {
  requireIcmp(encoding, protocol);
  const [only] = types;
  if (types.every(({ code }) => code === null)) {
    addMessageTypes(
      encoding,
      types.map(({ type }) => type),
      DATA_TYPE.icmpType[protocol],
      HEADER[protocol],
    );
    return;
  }
  if (only !== undefined && types.length === 1) {
    addField(encoding, 0, Uint8Array.of(only.type));
    addField(encoding, 1, Uint8Array.of(only.code ?? 0));
    return;
  }
  const ends = types.map(({ type, code }) => [
    Uint8Array.of(type, 0, 0, 0, code ?? 0, 0, 0, 0),
    Uint8Array.of(type, 0, 0, 0, code ?? 255, 0, 0, 0),
  ]);
  encoding.expressions.push(payload('transport', 0, 1), payload('transport', 1, 1, 9));
  const key = {
    type: concatenated(DATA_TYPE.icmpType[protocol], DATA_TYPE.icmpCode[protocol]),
    length: 8,
    fields: [1, 1],
    typeOf: typeOf.concatenation(typeOf.payload(HEADER[protocol], 1), typeOf.payload(HEADER[protocol], 2)),
  };
  const interval = types.some(({ code }) => code === null);
  addAnonymous(encoding, key, concatenatedElements(ends, interval));
}

export function addIgmp(encoding: RuleEncoding, { types }: MatchOf<'igmp'>): void {
  requireIcmp(encoding, 'igmp');
  addMessageTypes(encoding, types, DATA_TYPE.igmpType, HEADER.igmp);
}

/** Compares the first byte of the header. */
function addMessageTypes(
  encoding: RuleEncoding,
  types: readonly number[],
  dataType: number,
  description: number,
): void {
  const [only] = types;
  if (only !== undefined && types.length === 1) {
    addField(encoding, 0, Uint8Array.of(only));
    return;
  }
  encoding.expressions.push(payload('transport', 0, 1));
  const key = { type: dataType, length: 1, typeOf: typeOf.payload(description, 1) };
  addAnonymous(encoding, key, { shape: 'keys', keys: Uint8Array.from(types) });
}
