import type { BatchOperation, SetKeyType } from 'nftables-napi';
import type { PortRange } from '../../../apis/compiled.ts';
import { BITS, type Cidr, type Family, lastAddress, WIDTH } from '../../../lib/net/address.ts';
import { packMachine32 } from '../../../lib/net/bytes.ts';
import { packAddress } from '../../../lib/net/member-set.ts';
import { KEY_LENGTH, type NamedSet, TABLE } from '../../render/ruleset.ts';
import { type ChainVerdict, mapKeyLength, type VerdictMap } from '../../render/verdict-map.ts';

/** Sets and maps as libnftables 1.0.6 makes them of the text in nft-text.ts. */

export const TABLE_OF = { family: TABLE.family, table: TABLE.name } as const;

/** `enum datatypes` in nft's datatype.h; a concatenation has 6 bits for each field. */
export const DATA_TYPE = {
  integer: 4,
  mac: 9,
  mark: 19,
  address: { 4: 7, 6: 8 },
  protocol: 12,
  port: 13,
  icmpType: { icmp: 14, icmpv6: 29 },
  icmpCode: { icmp: 32, icmpv6: 33 },
  linkGroup: 35,
  igmpType: 42,
} as const;

export function concatenated(...types: readonly number[]): number {
  return types.reduce((all, type) => (all << 6) | type, 0);
}

/**
 * The constant set of one rule: created directly before the rule in the same batch; the rule refers
 * to it by `id`.
 */
export interface AnonymousSet {
  readonly id: number;
  readonly key: SetKeyType;
  readonly elements: AnonymousElements;
  /** For each key its verdict: it is a verdict map. */
  readonly verdicts?: readonly ChainVerdict[];
}

export type AnonymousElements =
  | { readonly shape: 'keys'; readonly keys: Uint8Array }
  /** Pairs of first and last key, sorted; adjacent ranges are merged. */
  | { readonly shape: 'ranges' | 'concatenatedRanges'; readonly ranges: Uint8Array };

/** The name that libnftables uses; the kernel replaces %d by a number. */
export const ANONYMOUS = '__set%d';
export const ANONYMOUS_MAP = '__map%d';

export function anonymousSet({ id, key, elements, verdicts }: AnonymousSet): BatchOperation[] {
  const name = { ...TABLE_OF, set: verdicts === undefined ? ANONYMOUS : ANONYMOUS_MAP };
  const isKeys = elements.shape === 'keys';
  return [
    {
      ...name,
      op: verdicts === undefined ? 'addSet' : 'addMap',
      id,
      key,
      anonymous: true,
      interval: !isKeys,
      size: sizeOf(key.length, elements),
    },
    isKeys
      ? {
          ...name,
          op: 'add',
          setId: id,
          keyLength: key.length,
          keys: elements.keys,
          ...(verdicts === undefined ? {} : { verdicts }),
        }
      : {
          ...name,
          op: 'add',
          setId: id,
          keyLength: key.length,
          ranges: elements.ranges,
          concatenated: elements.shape === 'concatenatedRanges',
          whole: true,
        },
  ];
}

/**
 * The size that libnftables gives the set: two for each range, and one more unless the first range
 * begins at 0 (set_to_intervals() in its segtree.c).
 */
function sizeOf(keyLength: number, elements: AnonymousElements): number {
  if (elements.shape === 'keys') return elements.keys.length / keyLength;
  const count = elements.ranges.length / (2 * keyLength);
  if (elements.shape === 'concatenatedRanges') return count;
  const beginsAtZero = elements.ranges.subarray(0, keyLength).every((byte) => byte === 0);
  return 2 * count + (beginsAtZero ? 0 : 1);
}

export function namedSet(set: NamedSet, id: number): BatchOperation {
  const { name, family, key, interval, comment, timed = false } = set;
  const address = DATA_TYPE.address[family];
  const service = concatenated(address, DATA_TYPE.protocol, DATA_TYPE.port);
  return {
    ...TABLE_OF,
    op: 'addSet',
    set: name,
    id,
    key:
      key === 'address'
        ? { type: address, length: KEY_LENGTH.address[family] }
        : { type: service, length: KEY_LENGTH.service[family], fields: [KEY_LENGTH.address[family], 1, 2] },
    interval,
    timeout: timed,
    ...(comment === null ? {} : { comment }),
  };
}

export function verdictMap(map: VerdictMap, id: number): BatchOperation {
  const { name, interval } = map;
  return {
    ...TABLE_OF,
    op: 'addMap',
    set: name,
    id,
    key: { ...keyOf(map), length: mapKeyLength(map) },
    interval,
  };
}

function keyOf({ key, family }: VerdictMap): Omit<SetKeyType, 'length'> {
  if (key === 'mark') return { type: DATA_TYPE.mark, byteOrder: 'machine' };
  if (family === null) return { type: DATA_TYPE.port };
  const address = DATA_TYPE.address[family];
  if (key === 'address') return { type: address };
  if (key === 'addressInnerMac') {
    const source = family === 4 ? typeOf.payload(HEADER.ip, 11) : typeOf.payload(HEADER.ip6, 8);
    return {
      type: concatenated(address, DATA_TYPE.integer),
      fields: [WIDTH[family], 6],
      typeOf: typeOf.concatenation(source, typeOf.transport(8 * INNER_MAC.offset, 8 * INNER_MAC.length)),
    };
  }
  return { type: concatenated(address, DATA_TYPE.mac), fields: [WIDTH[family], 6] };
}

/**
 * Single keys; or, if at least one is a range, first and last key of each, with adjacent ranges
 * merged, as libnftables does.
 */
export function portElements(ranges: readonly PortRange[]): AnonymousElements {
  if (ranges.every(([first, last]) => first === last)) {
    return { shape: 'keys', keys: Buffer.concat(ranges.map(([port]) => packPort(port))) };
  }
  const merged: [number, number][] = [];
  for (const [first, last] of ranges) {
    const before = merged.at(-1);
    if (before !== undefined && before[1] + 1 === first) before[1] = last;
    else merged.push([first, last]);
  }
  return { shape: 'ranges', ranges: Buffer.concat(merged.flat().map(packPort)) };
}

/** From first and last key of each: ranges if `interval`, else single keys, the first ones. */
export function concatenatedElements(
  ends: readonly (readonly Uint8Array[])[],
  interval: boolean,
): AnonymousElements {
  return interval
    ? { shape: 'concatenatedRanges', ranges: Buffer.concat(ends.flat()) }
    : { shape: 'keys', keys: Buffer.concat(ends.flatMap(([first]) => first ?? [])) };
}

/** The same as `portElements` for prefixes, which must be sorted and disjoint. */
export function prefixElements(cidrs: readonly Cidr[]): AnonymousElements {
  if (cidrs.every(({ family, length }) => length === BITS[family])) {
    return { shape: 'keys', keys: Buffer.concat(cidrs.map(packAddress)) };
  }
  const merged: { family: Family; first: bigint; last: bigint }[] = [];
  for (const cidr of cidrs) {
    const before = merged.at(-1);
    const last = lastAddress(cidr);
    if (before !== undefined && before.last + 1n === cidr.value) before.last = last;
    else merged.push({ family: cidr.family, first: cidr.value, last });
  }
  const ends = merged.flatMap(({ family, first, last }) => [
    packAddress({ family, value: first }),
    packAddress({ family, value: last }),
  ]);
  return { shape: 'ranges', ranges: Buffer.concat(ends) };
}

export function packPort(port: number): Uint8Array {
  return Uint8Array.of(port >>> 8, port & 0xff);
}

/**
 * The origin of a set's keys, which libnftables stores in the set for its own listings:
 * NFTNL_UDATA_SET_KEY_TYPEOF, nested TLVs with the number of the kind of expression (enum
 * expr_types in its expression.h) and the data of that kind (the *_build_udata() functions in its
 * payload.c, meta.c, ct.c, expression.c).
 */
export const typeOf = {
  /** Values of enum proto_desc_id, and indexes into the protocol's own list of fields (proto.h). */
  payload: (description: number, field: number) =>
    expression(7, [...number(0, description), ...number(1, field)]),
  /** Bytes of the transport header that have no name; both in bits. */
  transport: (offset: number, length: number) =>
    expression(
      7,
      [0, 0, 3, offset, length].flatMap((value, type) => number(type, value)),
    ),
  meta: (key: number) => expression(9, number(0, key)),
  concatenation: (...parts: readonly Uint8Array[]) =>
    expression(
      13,
      parts.flatMap((part, i) => [i, part.length, ...part]),
    ),
};

/** The headers' numbers, for typeOf.payload. */
export const HEADER = {
  icmp: 4,
  igmp: 5,
  udp: 6,
  tcp: 8,
  sctp: 10,
  th: 11,
  ip: 12,
  ip6: 13,
  icmpv6: 14,
} as const;
/** The source MAC of the frame in a VXLAN packet, in bytes from the transport header. */
export const INNER_MAC = { offset: 22, length: 6 } as const;
export const TYPE_OF_PROTOCOL = typeOf.meta(16);

function expression(kind: number, data: readonly number[]): Uint8Array {
  return Uint8Array.from([...number(0, kind), 1, data.length, ...data]);
}

function number(type: number, value: number): number[] {
  return [type, 4, ...packMachine32(value)];
}
