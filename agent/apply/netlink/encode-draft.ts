import type { Expression } from 'nftables-napi';
import { type Family, WIDTH } from '../../../lib/net/address.ts';
import type { L4Protocol } from '../../render/ruleset.ts';
import { ANONYMOUS, type AnonymousElements, type AnonymousSet, packMachine32 } from './encode-set.ts';

/**
 * Ids of sets in this batch: `next` gives out one, `of` knows those of the named sets that the
 * batch makes.
 */
export interface SetIds {
  next(): number;
  of(name: string): number | undefined;
}

/**
 * A rule while it is written: what it does so far, and what is known of a packet that got there.
 */
export interface Draft {
  readonly ids: SetIds;
  readonly sets: AnonymousSet[];
  readonly expressions: Expression[];
  /**
   * What the expressions so far make sure of: the family, and the protocol or that it is one of
   * several.
   */
  family: Family | null;
  protocol: L4Protocol | 'several' | null;
  /**
   * Fields of the transport header that are compared with one value: at which expression, and
   * whether that is two already.
   */
  readonly fields: { at: number; offset: number; value: Uint8Array; merged: boolean }[];
}

export function newDraft(ids: SetIds): Draft {
  return { ids, sets: [], expressions: [], family: null, protocol: null, fields: [] };
}

/** Where everything is loaded to; the verdict is in another. */
export const REGISTER = 1;
/** NFPROTO_IPV4, NFPROTO_IPV6 of linux/netfilter.h. */
const NFPROTO = { 4: 2, 6: 10 } as const;
export const PROTOCOL: Readonly<Record<L4Protocol, number>> = {
  icmp: 1,
  igmp: 2,
  tcp: 6,
  udp: 17,
  icmpv6: 58,
  sctp: 132,
};
/** Offsets in the IP header, by family. */
export const ADDRESS_OFFSET = { 4: { saddr: 12, daddr: 16 }, 6: { saddr: 8, daddr: 24 } } as const;
export const PORT_OFFSET = { sport: 0, dport: 2 } as const;
// What makes sure that a header is there, and what says so in the rule itself: libnftables leaves
// out the first where it is known, never the second.

export function requireFamily(draft: Draft, family: Family): void {
  if (draft.family === null) addFamily(draft, family);
  else if (draft.family !== family) throw conflict(`IPv${draft.family}`, `IPv${family}`);
}

export function addFamily(draft: Draft, family: Family): void {
  addEqual(draft, meta('nfproto'), Uint8Array.of(NFPROTO[family]));
  draft.family = family;
}

export function requireProtocol(draft: Draft, protocol: L4Protocol): void {
  if (draft.protocol === null) addProtocol(draft, protocol);
  else if (draft.protocol !== protocol) throw conflict(draft.protocol, protocol);
}

export function addProtocol(draft: Draft, protocol: L4Protocol): void {
  addEqual(draft, meta('l4proto'), Uint8Array.of(PROTOCOL[protocol]));
  draft.protocol = protocol;
}

/**
 * ICMP and IGMP are of one family, but where the protocol is known libnftables takes the family for
 * known too.
 */
export function requireIcmp(draft: Draft, protocol: 'icmp' | 'icmpv6' | 'igmp'): void {
  if (draft.protocol === null) requireFamily(draft, protocol === 'icmpv6' ? 6 : 4);
  requireProtocol(draft, protocol);
}

/** libnftables refuses such a rule too, which can't match. */
function conflict(one: string, other: string): Error {
  return new Error(`a rule for ${one} can't match ${other}`);
}

export function addEqual(draft: Draft, load: Expression, value: Uint8Array, negated = false): void {
  draft.expressions.push(load);
  addCompare(draft, value, negated);
}

export function addCompare(draft: Draft, value: Uint8Array, negated: boolean): void {
  draft.expressions.push(
    negated ? { kind: 'cmp', register: REGISTER, operator: 'neq', value } : equal(value),
  );
}

/** One of the bits is set. */
export function addFlags(draft: Draft, key: 'state' | 'status', bits: number): void {
  draft.expressions.push(
    { kind: 'ct', key, register: REGISTER },
    { kind: 'bitwise', register: REGISTER, mask: packMachine32(bits), xor: packMachine32(0) },
  );
  addCompare(draft, packMachine32(0), true);
}

/**
 * A field of the transport header. Next to one that is compared already, both are compared at once,
 * where the first of them stands in the header's order. (Where a rule compares one field twice
 * libnftables may join others, to the same effect; no rule of ours does.)
 */
export function addField(draft: Draft, offset: number, value: Uint8Array): void {
  const { fields, expressions } = draft;
  const neighbour = fields.find(
    (field) =>
      !field.merged &&
      (field.offset + field.value.length === offset || offset + value.length === field.offset),
  );
  if (neighbour === undefined) {
    fields.push({ at: expressions.length, offset, value, merged: false });
    addEqual(draft, payload('transport', offset, value.length), value);
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
  addEqual(draft, payload('transport', offset, both.length), both);
}

export function addNamedLookup({ ids, expressions }: Draft, set: string, verdict = false): void {
  const setId = ids.of(set);
  expressions.push({
    kind: 'lookup',
    register: REGISTER,
    set,
    ...(setId === undefined ? {} : { setId }),
    ...(verdict ? { verdict } : {}),
  });
}

export function addAnonymous(
  { ids, sets, expressions }: Draft,
  key: AnonymousSet['key'],
  elements: AnonymousElements,
  inverted = false,
): void {
  const id = ids.next();
  sets.push({ id, key, elements });
  expressions.push({ kind: 'lookup', register: REGISTER, set: ANONYMOUS, setId: id, inverted });
}

export function equal(value: Uint8Array): Expression {
  return { kind: 'cmp', register: REGISTER, operator: 'eq', value };
}

export function meta(key: Extract<Expression, { kind: 'meta' }>['key']): Expression {
  return { kind: 'meta', key, register: REGISTER };
}

export function payload(
  base: 'network' | 'transport',
  offset: number,
  length: number,
  register = REGISTER,
): Expression {
  return { kind: 'payload', base, offset, length, register };
}

export function address(family: Family, field: 'saddr' | 'daddr'): Expression {
  return payload('network', ADDRESS_OFFSET[family][field], WIDTH[family]);
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
