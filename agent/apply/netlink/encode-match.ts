import type { Expression } from 'nftables-napi';
import { BITS, type Cidr, type Family, WIDTH } from '../../../lib/net/address.ts';
import { packMachine32 } from '../../../lib/net/machine-order.ts';
import { packAddress } from '../../../lib/net/member-set.ts';
import type { L4Protocol, Match } from '../../render/ruleset.ts';
import {
  type AnonymousElements,
  concatenated,
  DATA_TYPE,
  packPort,
  portElements,
  prefixElements,
  typeOf,
} from './encode-set.ts';
import {
  ADDRESS_OFFSET,
  addAnonymous,
  addCompare,
  addEqual,
  addFamily,
  addField,
  addFlags,
  addMaskedMark,
  addNamedLookup,
  addProtocol,
  address,
  meta,
  ORIGINAL_ADDRESS,
  ORIGINAL_PORT,
  PORT_OFFSET,
  PROTOCOL,
  payload,
  port,
  REGISTER,
  type RuleEncoding,
  requireFamily,
  requireIcmp,
  requireProtocol,
} from './rule-encoding.ts';

type Of<Kind extends Match['match']> = Extract<Match, { match: Kind }>;

/** Adds the expressions of a match to the rule. */
export function addMatch(encoding: RuleEncoding, match: Match): void {
  const add = MATCHES[match.match] as (to: RuleEncoding, it: Match) => void;
  add(encoding, match);
}

const MATCHES: { readonly [Kind in Match['match']]: (encoding: RuleEncoding, match: Of<Kind>) => void } = {
  ctEstablished: (encoding) => addFlags(encoding, 'state', CT_ESTABLISHED | CT_RELATED),
  ctNew: (encoding) => addFlags(encoding, 'state', CT_NEW),
  ctDirection: (encoding, { direction }) => addDirection(encoding, direction),
  ctNoSnat: (encoding) => addFlags(encoding, 'status', CT_SNAT, true),
  mark: addMark,
  notInSet: addNotInSet,
  noRouteBack: (encoding) => addEqual(encoding, FIB_BACK, packMachine32(0)),
  tcpSyn: addSyn,
  loopback: (encoding, { field }) => addEqual(encoding, meta(field), packMachine32(LOOPBACK)),
  interfaceGroup: addGroups,
  ctDnat: (encoding) => addFlags(encoding, 'status', CT_DNAT),
  ctConfirmed: (encoding) => addFlags(encoding, 'status', CT_CONFIRMED),
  dnsAnswer: addDnsAnswer,
  limit: addLimit,
  nfproto: (encoding, { family }) => addFamily(encoding, family),
  l4proto: (encoding, { protocols }) => addProtocols(encoding, protocols),
  address: addAddress,
  port: addPorts,
  originalPort: addOriginalPorts,
  serviceTuple: addService,
  notIn: addNotIn,
  local: (encoding, { field }) => addEqual(encoding, FIB_TYPE[field], packMachine32(RTN_LOCAL)),
  vrf: (encoding) => addEqual(encoding, meta('iifkind'), VRF),
  portTuple: addPortTuples,
  icmp: addIcmp,
  igmp: addIgmp,
};

/** Bits of linux/netfilter/nf_conntrack_common.h. */
const CT_ESTABLISHED = 2;
const CT_RELATED = 4;
const CT_CONFIRMED = 8;
const CT_NEW = 8;
const CT_SNAT = 16;
const CT_DNAT = 32;
/** enum ip_conntrack_dir of linux/netfilter/nf_conntrack_tuple_common.h. */
const CT_DIRECTION = { original: 0, reply: 1 } as const;
/** RTN_LOCAL of linux/rtnetlink.h. */
const RTN_LOCAL = 2;
const FIB_TYPE = {
  saddr: { kind: 'fib', result: 'type', flags: ['saddr'], register: REGISTER },
  daddr: { kind: 'fib', result: 'type', flags: ['daddr'], register: REGISTER },
} as const;
const FIB_BACK = {
  kind: 'fib',
  result: 'oif',
  flags: ['saddr', 'iif', 'present'],
  register: REGISTER,
} as const;
/** The byte of the TCP header with the flags, and SYN in it. */
const TCP_FLAGS = payload('transport', 13, 1);
const SYN = Uint8Array.of(2);
/** Padded to IFNAMSIZ, as the kernel compares it. */
const VRF = Buffer.from('vrf'.padEnd(16, '\0'));
/** LOOPBACK_IFINDEX in the kernel's include/net/flow.h, the same in every network namespace. */
const LOOPBACK = 1;
/** Arguments of typeOf.payload: protocol and field. */
const DESCRIPTION = { icmp: 4, igmp: 5, udp: 6, tcp: 8, sctp: 10, th: 11, icmpv6: 14 } as const;
const PORT_FIELD = { sport: 1, dport: 2 } as const;
const ADDRESS_TYPE_OF = {
  4: { saddr: typeOf.payload(12, 11), daddr: typeOf.payload(12, 12) },
  6: { saddr: typeOf.payload(13, 8), daddr: typeOf.payload(13, 9) },
} as const;
const TYPE_OF_PROTOCOL = typeOf.meta(16);
const TYPE_OF_GROUP = { iifgroup: typeOf.meta(21), oifgroup: typeOf.meta(22) } as const;
const TYPE_OF_ORIGINAL_PORT = typeOf.ct(12, 0);

function addDnsAnswer(encoding: RuleEncoding): void {
  requireProtocol(encoding, 'udp');
  addField(encoding, PORT_OFFSET.sport, packPort(53));
  addFlags(encoding, 'state', CT_ESTABLISHED);
  addDirection(encoding, 'reply');
}

function addDirection(encoding: RuleEncoding, direction: Of<'ctDirection'>['direction']): void {
  const load = { kind: 'ct', key: 'direction', register: REGISTER } as const;
  addEqual(encoding, load, Uint8Array.of(CT_DIRECTION[direction]));
}

function addMark(encoding: RuleEncoding, { of, mask, value, negated }: Of<'mark'>): void {
  addMaskedMark(encoding, of, mask);
  addCompare(encoding, packMachine32(value), negated);
}

function addSyn(encoding: RuleEncoding): void {
  requireProtocol(encoding, 'tcp');
  encoding.expressions.push(TCP_FLAGS, {
    kind: 'bitwise',
    register: REGISTER,
    mask: SYN,
    xor: Uint8Array.of(0),
  });
  addCompare(encoding, Uint8Array.of(0), true);
}

function addNotInSet(encoding: RuleEncoding, { family, field, set }: Of<'notInSet'>): void {
  requireFamily(encoding, family);
  encoding.expressions.push(address(family, field));
  addNamedLookup(encoding, set, { inverted: true });
}

function addLimit({ expressions }: RuleEncoding, { perSecond, burst }: Of<'limit'>): void {
  expressions.push({ kind: 'limit', rate: perSecond, seconds: 1, burst });
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

function addService(encoding: RuleEncoding, { family, set }: Of<'serviceTuple'>): void {
  requireFamily(encoding, family);
  encoding.expressions.push(...SERVICE[family]);
  addNamedLookup(encoding, set);
}

function addGroups(encoding: RuleEncoding, { field, groups, negated }: Of<'interfaceGroup'>): void {
  const values = groups.map(packMachine32);
  const [only] = values;
  if (only !== undefined && values.length === 1) {
    addEqual(encoding, meta(field), only, negated);
    return;
  }
  const key = {
    type: DATA_TYPE.linkGroup,
    length: 4,
    byteOrder: 'machine',
    typeOf: TYPE_OF_GROUP[field],
  } as const;
  encoding.expressions.push(meta(field));
  addAnonymous(encoding, key, { shape: 'keys', keys: Buffer.concat(values) }, negated);
}

function addProtocols(encoding: RuleEncoding, protocols: readonly L4Protocol[]): void {
  const [only] = protocols;
  if (only !== undefined && protocols.length === 1) {
    addProtocol(encoding, only);
    return;
  }
  const key = {
    type: DATA_TYPE.protocol,
    length: 1,
    byteOrder: 'machine',
    typeOf: TYPE_OF_PROTOCOL,
  } as const;
  encoding.expressions.push(meta('l4proto'));
  const keys = Uint8Array.from(protocols, (protocol) => PROTOCOL[protocol]);
  addAnonymous(encoding, key, { shape: 'keys', keys });
  encoding.protocol = 'several';
}

function addAddress(encoding: RuleEncoding, { family, field, in: where }: Of<'address'>): void {
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

function addNotIn(encoding: RuleEncoding, { family, field, cidrs }: Of<'notIn'>): void {
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

function addPorts(encoding: RuleEncoding, { protocol, field, ranges, isProtocolKnown }: Of<'port'>): void {
  if (!isProtocolKnown) requireProtocol(encoding, protocol);
  const [only] = ranges;
  if (only !== undefined && ranges.length === 1 && only[0] === only[1]) {
    addField(encoding, PORT_OFFSET[field], packPort(only[0]));
    return;
  }
  encoding.expressions.push(port(field));
  const header = isProtocolKnown ? DESCRIPTION.th : DESCRIPTION[protocol];
  addPortRanges(encoding, ranges, typeOf.payload(header, PORT_FIELD[field]));
}

function addOriginalPorts(encoding: RuleEncoding, { protocol, ranges }: Of<'originalPort'>): void {
  addProtocol(encoding, protocol);
  encoding.expressions.push(ORIGINAL_PORT);
  addPortRanges(encoding, ranges, TYPE_OF_ORIGINAL_PORT);
}

/** Compares the port in the register. */
function addPortRanges(encoding: RuleEncoding, ranges: Of<'port'>['ranges'], origin: Uint8Array): void {
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
  addAnonymous(encoding, { type: DATA_TYPE.port, length: 2, typeOf: origin }, portElements(ranges));
}

/**
 * Each field after the first begins at the next multiple of 4 bytes: register 9 is the second
 * 32-bit piece of register 1, 10 the third.
 */
function addPortTuples(encoding: RuleEncoding, { withSourcePort, tuples }: Of<'portTuple'>): void {
  const fields = withSourcePort ? (['sport', 'dport'] as const) : (['dport'] as const);
  const ends = tuples.map(({ protocol, sourcePorts, ports }) => {
    const ranges = withSourcePort ? [sourcePorts, ports] : [ports];
    return ([0, 1] as const).map((end) =>
      Uint8Array.from([
        ...[PROTOCOL[protocol], 0, 0, 0],
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
    ...fields.map((field) => typeOf.payload(DESCRIPTION.th, PORT_FIELD[field])),
  );
  encoding.expressions.push(meta('l4proto'));
  // Ranges are compared in network byte order. For a single byte the conversion has no effect, but
  // libnftables does it, and then can't record the origin of the key.
  if (interval) {
    encoding.expressions.push({
      kind: 'byteorder',
      register: REGISTER,
      operation: 'hton',
      length: 1,
      size: 2,
    });
  }
  encoding.expressions.push(...fields.map((field, i) => port(field, 9 + i)));
  const key = {
    type: concatenated(...types),
    length: 4 * types.length,
    fields: [1, ...fields.map(() => 2)],
    ...(interval ? {} : { typeOf: origin }),
  };
  addAnonymous(encoding, key, concatenatedElements(ends, interval));
}

function concatenatedElements(
  ends: readonly (readonly Uint8Array[])[],
  interval: boolean,
): AnonymousElements {
  return interval
    ? { shape: 'concatenatedRanges', ranges: Buffer.concat(ends.flat()) }
    : { shape: 'keys', keys: Buffer.concat(ends.flatMap(([first]) => first ?? [])) };
}

function addIcmp(encoding: RuleEncoding, { protocol, types }: Of<'icmp'>): void {
  requireIcmp(encoding, protocol);
  const [only] = types;
  if (types.every(({ code }) => code === null)) {
    addMessageTypes(
      encoding,
      types.map(({ type }) => type),
      DATA_TYPE.icmpType[protocol],
      DESCRIPTION[protocol],
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
    typeOf: typeOf.concatenation(
      typeOf.payload(DESCRIPTION[protocol], 1),
      typeOf.payload(DESCRIPTION[protocol], 2),
    ),
  };
  const interval = types.some(({ code }) => code === null);
  addAnonymous(encoding, key, concatenatedElements(ends, interval));
}

function addIgmp(encoding: RuleEncoding, { types }: Of<'igmp'>): void {
  requireIcmp(encoding, 'igmp');
  addMessageTypes(encoding, types, DATA_TYPE.igmpType, DESCRIPTION.igmp);
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
