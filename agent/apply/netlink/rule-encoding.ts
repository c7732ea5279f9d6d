import type { Expression } from 'nftables-napi';
import { ipProtocolNumber } from '../../../apis/flow.ts';
import { type Family, WIDTH } from '../../../lib/net/address.ts';
import { packMachine32 } from '../../../lib/net/bytes.ts';
import type { L4Protocol, MarkField } from '../../render/ruleset.ts';
import type { ChainVerdict } from '../../render/verdict-map.ts';
import {
  ANONYMOUS,
  ANONYMOUS_MAP,
  type AnonymousElements,
  type AnonymousSet,
  DATA_TYPE,
} from './encode-set.ts';

/**
 * Ids of the sets in this batch: `next` returns a new id, `of` the id of a named set that the batch
 * creates (undefined for others).
 */
export interface SetIds {
  next(): number;
  of(name: string): number | undefined;
}

/**
 * A rule under construction: its expressions so far, and the properties of packets that match them.
 */
export interface RuleEncoding {
  readonly ids: SetIds;
  readonly sets: AnonymousSet[];
  readonly expressions: Expression[];
  /**
   * Guaranteed by the expressions so far: the family, and the protocol or that it is one of
   * several.
   */
  family: Family | null;
  protocol: L4Protocol | 'several' | null;
  /**
   * Fields of the transport header that are compared with one value: the index of the expression,
   * and whether it already compares two merged fields.
   */
  readonly fields: { at: number; offset: number; value: Uint8Array; merged: boolean }[];
}

export function newRuleEncoding(ids: SetIds): RuleEncoding {
  return { ids, sets: [], expressions: [], family: null, protocol: null, fields: [] };
}

/** All data is loaded into this register; the verdict has another. */
export const REGISTER = 1;
/** NFPROTO_IPV4, NFPROTO_IPV6 of linux/netfilter.h. */
const NFPROTO = { 4: 2, 6: 10 } as const;
/** Offsets in the IP header in bytes, by family. */
export const ADDRESS_OFFSET = { 4: { saddr: 12, daddr: 16 }, 6: { saddr: 8, daddr: 24 } } as const;
export const PORT_OFFSET = { sport: 0, dport: 2 } as const;
// `require…` functions add the check for a header that a match needs, `add…` functions the check
// that a rule states itself. libnftables leaves out the first if its result is known already, never
// the second.

export function requireFamily(encoding: RuleEncoding, family: Family): void {
  if (encoding.family === null) addFamily(encoding, family);
  else if (encoding.family !== family) throw conflict(`IPv${encoding.family}`, `IPv${family}`);
}

export function addFamily(encoding: RuleEncoding, family: Family): void {
  addEqual(encoding, meta('nfproto'), Uint8Array.of(NFPROTO[family]));
  encoding.family = family;
}

export function requireProtocol(encoding: RuleEncoding, protocol: L4Protocol): void {
  if (encoding.protocol === null) addProtocol(encoding, protocol);
  else if (encoding.protocol !== protocol) throw conflict(String(encoding.protocol), String(protocol));
}

export function addProtocol(encoding: RuleEncoding, protocol: L4Protocol): void {
  addEqual(encoding, meta('l4proto'), Uint8Array.of(ipProtocolNumber(protocol)));
  encoding.protocol = protocol;
}

/**
 * ICMP and IGMP belong to one family each, but if the protocol is known, libnftables takes the
 * family for known too.
 */
export function requireIcmp(encoding: RuleEncoding, protocol: 'icmp' | 'icmpv6' | 'igmp'): void {
  if (encoding.protocol === null) requireFamily(encoding, protocol === 'icmpv6' ? 6 : 4);
  requireProtocol(encoding, protocol);
}

/** The rule can't match any packet; libnftables refuses it too. */
function conflict(one: string, other: string): Error {
  return new Error(`a rule that matches ${one} cannot also match ${other}`);
}

export function addEqual(encoding: RuleEncoding, load: Expression, value: Uint8Array, negated = false): void {
  encoding.expressions.push(load);
  addCompare(encoding, value, negated);
}

export function addCompare(encoding: RuleEncoding, value: Uint8Array, negated: boolean): void {
  encoding.expressions.push(
    negated ? { kind: 'cmp', register: REGISTER, operator: 'neq', value } : equal(value),
  );
}

/** Loads the mark, and leaves only the bits of the mask. */
export function addMaskedMark({ expressions }: RuleEncoding, of: MarkField, mask: number, xor = 0): void {
  expressions.push({ kind: of, key: 'mark', register: REGISTER });
  if (mask === ALL_BITS && xor === 0) return;
  expressions.push(bitwise(packMachine32(mask), packMachine32(xor)));
}

const ALL_BITS = 0xffff_ffff;

/** Matches if at least one of the bits is set; `none`: if none is. */
export function addFlags(encoding: RuleEncoding, key: 'state' | 'status', bits: number, none = false): void {
  encoding.expressions.push({ kind: 'ct', key, register: REGISTER }, bitwise(packMachine32(bits)));
  addCompare(encoding, packMachine32(0), !none);
}

/**
 * Compares a field of the transport header. If an adjacent field is compared already, one
 * expression compares both, at the place of the one that comes first in the header. (If a rule
 * compares one field twice, libnftables may merge other pairs, with the same effect; no rule of
 * ours does.)
 */
export function addField(encoding: RuleEncoding, offset: number, value: Uint8Array): void {
  const { fields, expressions } = encoding;
  const neighbour = fields.find(
    (field) =>
      !field.merged &&
      (field.offset + field.value.length === offset || offset + value.length === field.offset),
  );
  if (neighbour === undefined) {
    fields.push({ at: expressions.length, offset, value, merged: false });
    addEqual(encoding, payload('transport', offset, value.length), value);
    return;
  }
  neighbour.merged = true;
  if (neighbour.offset < offset) {
    const both = Buffer.concat([neighbour.value, value]);
    expressions[neighbour.at] = payload('transport', neighbour.offset, both.length);
    expressions[neighbour.at + 1] = equal(both);
    return;
  }
  expressions.splice(neighbour.at, 2);
  const both = Buffer.concat([value, neighbour.value]);
  addEqual(encoding, payload('transport', offset, both.length), both);
}

/** `verdict`: the set is a verdict map; `inverted`: matches what is not in it. */
export function addNamedLookup(
  { ids, expressions }: RuleEncoding,
  set: string,
  { verdict = false, inverted = false } = {},
): void {
  const setId = ids.of(set);
  expressions.push({
    kind: 'lookup',
    register: REGISTER,
    set,
    ...(setId === undefined ? {} : { setId }),
    ...(verdict ? { verdict } : {}),
    ...(inverted ? { inverted } : {}),
  });
}

export function addAnonymous(
  { ids, sets, expressions }: RuleEncoding,
  key: AnonymousSet['key'],
  elements: AnonymousElements,
  inverted = false,
): void {
  const id = ids.next();
  sets.push({ id, key, elements });
  expressions.push({ kind: 'lookup', register: REGISTER, set: ANONYMOUS, setId: id, inverted });
}

/** An anonymous map from 0, 1, … to these verdicts. */
export function addAnonymousMap(
  { ids, sets, expressions }: RuleEncoding,
  verdicts: readonly ChainVerdict[],
): void {
  const id = ids.next();
  const key = { type: DATA_TYPE.integer, length: 4, byteOrder: 'machine' } as const;
  const keys = Buffer.concat(verdicts.map((_, i) => packMachine32(i)));
  sets.push({ id, key, elements: { shape: 'keys', keys }, verdicts });
  expressions.push({
    kind: 'lookup',
    register: REGISTER,
    set: ANONYMOUS_MAP,
    setId: id,
    verdict: true,
  });
}

/** The bits of the mask of what is in the register, then the exclusive or. */
export function bitwise(mask: Uint8Array, xor: Uint8Array = new Uint8Array(mask.length)): Expression {
  return { kind: 'bitwise', register: REGISTER, mask, xor };
}

export function equal(value: Uint8Array): Expression {
  return { kind: 'cmp', register: REGISTER, operator: 'eq', value };
}

export function meta(key: Extract<Expression, { kind: 'meta' }>['key']): Expression {
  return { kind: 'meta', key, register: REGISTER };
}

export function payload(
  base: 'link' | 'network' | 'transport',
  offset: number,
  length: number,
  register = REGISTER,
): Expression {
  return { kind: 'payload', base, offset, length, register };
}

export function address(family: Family, field: 'saddr' | 'daddr', register = REGISTER): Expression {
  return payload('network', ADDRESS_OFFSET[family][field], WIDTH[family], register);
}

export function port(field: 'sport' | 'dport', register = REGISTER): Expression {
  return payload('transport', PORT_OFFSET[field], 2, register);
}

export const ORIGINAL_PORT: Expression = {
  kind: 'ct',
  key: 'protoDestination',
  register: REGISTER,
  direction: 'original',
};

export const ORIGINAL_ADDRESS: Readonly<Record<Family, Expression>> = {
  4: { kind: 'ct', key: 'destinationIp', register: REGISTER, direction: 'original' },
  6: { kind: 'ct', key: 'destinationIp6', register: REGISTER, direction: 'original' },
};
