import { isIPv4 } from 'node:net';
import {
  type Address,
  BITS,
  type Cidr,
  type Family,
  formatAddress,
  formatCidr,
  ipv4Number,
  lastAddress,
  parseAddress,
  WIDTH,
} from './address.ts';
import { type Interval, mergeIPv4, subtract, toCidrs, toInterval, union } from './interval.ts';
import {
  concat,
  type FamilyMembers,
  hasSingle,
  sameSingles,
  singlesCount,
  withSingles,
} from './packed-keys.ts';

export type { FamilyMembers } from './packed-keys.ts';
export { diffMembers, diffSingles } from './packed-keys.ts';

/** The members of an AddressSet: single addresses and prefixes, by family. */
export interface MemberSet {
  readonly v4: FamilyMembers;
  readonly v6: FamilyMembers;
}

/** A CIDR without its exceptions. */
export interface CidrBlock {
  readonly cidr: Cidr;
  readonly except: readonly Cidr[];
}

/**
 * Members of the union of static blocks and of addresses as text; throws a TypeError if a text is
 * not an IP address. Static blocks are merged to the fewest prefixes. The other addresses stay
 * single, so that a later change of one changes one element and never a prefix. An address that a
 * prefix covers is left out.
 */
export function toMemberSet(blocks: Iterable<CidrBlock>, addresses: Iterable<string>): MemberSet {
  const blocks6: CidrBlock[] = [];
  const merged4 = mergeIPv4(asideIPv6(blocks, blocks6));
  const merged6 = mergeBlocks(6, blocks6);
  const { v4, v6 } = toNumbers(addresses);
  for (const value of merged4.singles) v4.push(value);
  const prefixes6 = wide(merged6);
  for (const { value, length } of merged6) if (length === BITS[6]) v6.push(value);
  return {
    v4: { family: 4, singles: packIPv4(v4, merged4.prefixes), prefixes: merged4.prefixes },
    v6: { family: 6, singles: packIPv6(v6, prefixes6), prefixes: prefixes6 },
  };
}

function toNumbers(addresses: Iterable<string>): { readonly v4: number[]; readonly v6: bigint[] } {
  const v4: number[] = [];
  const v6: bigint[] = [];
  for (const text of addresses) {
    if (isIPv4(text)) v4.push(ipv4Number(text));
    else {
      const address = parseAddress(text);
      if (address === null) throw new TypeError(`${text} is not an IP address`);
      v6.push(address.value);
    }
  }
  return { v4, v6 };
}

const NO_SINGLES = new Uint8Array(0);

/** Shared by all sets: of 100,000 sets, most have no members in one of the families. */
export const NO_MEMBERS: MemberSet = {
  v4: { family: 4, singles: NO_SINGLES, prefixes: [] },
  v6: { family: 6, singles: NO_SINGLES, prefixes: [] },
};

function* asideIPv6(blocks: Iterable<CidrBlock>, aside: CidrBlock[]): Iterable<CidrBlock> {
  for (const block of blocks) {
    if (block.cidr.family === 4) yield block;
    else aside.push(block);
  }
}

/** The members with further addresses; throws a TypeError if a text is not an IP address. */
export function addAddresses(members: MemberSet, addresses: Iterable<string>): MemberSet {
  return changeAddresses(members, [], addresses);
}

/**
 * The members without the addresses in `removed` and with those in `added`; throws a TypeError if a
 * text is not an IP address. The caller guarantees that no other member or static block stands for
 * a removed address. A family without a change is the same object. Cost: the addresses named; the
 * singles of a family are copied only when they are read.
 */
export function changeAddresses(
  { v4, v6 }: MemberSet,
  removed: Iterable<string>,
  added: Iterable<string>,
): MemberSet {
  const [less, more] = [toNumbers(removed), toNumbers(added)];
  return {
    v4: withChange(v4, packIPv4(less.v4, []), packIPv4(more.v4, [])),
    v6: withChange(v6, packIPv6(less.v6, []), packIPv6(more.v6, [])),
  };
}

function withChange(members: FamilyMembers, removed: Uint8Array, added: Uint8Array): FamilyMembers {
  if (removed.length === 0 && added.length === 0) return members;
  return withSingles(members, removed, uncovered(members.family, added, members.prefixes));
}

/** The packed addresses that no prefix covers. */
function uncovered(family: Family, packed: Uint8Array, prefixes: readonly Cidr[]): Uint8Array {
  if (prefixes.length === 0) return packed;
  const width = WIDTH[family];
  const rest: Uint8Array[] = [];
  for (let at = 0; at < packed.length; at += width) {
    if (!hasPrefix(prefixes, unpackAddress(family, packed, at).value))
      rest.push(packed.subarray(at, at + width));
  }
  return concat(rest);
}

function wide(prefixes: readonly Cidr[]): Cidr[] {
  return prefixes.filter((prefix) => prefix.length < BITS[prefix.family]);
}

/** The union of the blocks without their own exceptions, as the fewest prefixes. */
function mergeBlocks(family: Family, blocks: readonly CidrBlock[]): Cidr[] {
  const parts: Interval[] = [];
  for (const { cidr, except } of blocks) {
    if (cidr.family !== family) continue;
    parts.push(...subtract([toInterval(cidr)], union(except.map(toInterval))));
  }
  return union(parts).flatMap((interval) => toCidrs(family, interval));
}

function packIPv4(values: readonly number[], prefixes: readonly Cidr[]): Uint8Array {
  if (values.length === 0) return NO_SINGLES;
  const sorted = new Uint32Array(values).sort();
  const bounds = prefixes.map((prefix) => [Number(prefix.value), Number(lastAddress(prefix))] as const);
  const packed = new Uint8Array(sorted.length * 4);
  let length = 0;
  let previous = -1;
  let at = 0;
  for (const value of sorted) {
    if (value === previous) continue;
    previous = value;
    while ((bounds[at]?.[1] ?? value) < value) at++;
    if ((bounds[at]?.[0] ?? Number.POSITIVE_INFINITY) <= value) continue;
    putWord(packed, length, value);
    length += 4;
  }
  return length === packed.length ? packed : packed.slice(0, length);
}

function packIPv6(values: bigint[], prefixes: readonly Cidr[]): Uint8Array {
  if (values.length === 0) return NO_SINGLES;
  values.sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  const packed = new DataView(new ArrayBuffer(values.length * 16));
  let count = 0;
  let previous = -1n;
  let at = 0;
  for (const value of values) {
    if (value === previous) continue;
    previous = value;
    let prefix = prefixes[at];
    while (prefix !== undefined && lastAddress(prefix) < value) prefix = prefixes[++at];
    if (prefix !== undefined && prefix.value <= value) continue;
    packed.setBigUint64(16 * count, value >> 64n);
    packed.setBigUint64(16 * count++ + 8, value & 0xffff_ffff_ffff_ffffn);
  }
  return new Uint8Array(packed.buffer.slice(0, 16 * count));
}

/** The address at byte `offset` of packed addresses. */
export function unpackAddress(family: Family, packed: Uint8Array, offset: number): Address {
  let value = 0n;
  for (let i = 0; i < WIDTH[family]; i += 4) value = (value << 32n) | BigInt(wordAt(packed, offset + i));
  return { family, value };
}

/** Packs one address. */
export function packAddress({ family, value }: Address): Uint8Array {
  const packed = new Uint8Array(WIDTH[family]);
  let rest = value;
  for (let i = packed.length - 4; i >= 0; i -= 4, rest >>= 32n)
    putWord(packed, i, Number(rest & 0xffffffffn));
  return packed;
}

function wordAt(bytes: Uint8Array, at: number): number {
  const byte = (i: number): number => bytes[at + i] ?? 0;
  return ((byte(0) << 24) | (byte(1) << 16) | (byte(2) << 8) | byte(3)) >>> 0;
}

function putWord(bytes: Uint8Array, at: number, word: number): void {
  bytes[at] = word >>> 24;
  bytes[at + 1] = word >>> 16;
  bytes[at + 2] = word >>> 8;
  bytes[at + 3] = word;
}

/** Packs the address of a text; null if it is none. */
export function packText(text: string): Uint8Array | null {
  if (!isIPv4(text)) {
    const address = parseAddress(text);
    return address === null ? null : packAddress(address);
  }
  const packed = new Uint8Array(WIDTH[4]);
  putWord(packed, 0, ipv4Number(text));
  return packed;
}

/** Number of single addresses and prefixes. */
export function memberCount(members: FamilyMembers): number {
  return singlesCount(members) + members.prefixes.length;
}

/** That of both families. */
export function memberTotal({ v4, v6 }: MemberSet): number {
  return memberCount(v4) + memberCount(v6);
}

/** Whether the members cover the whole family. */
export function coversFamily(members: FamilyMembers): boolean {
  return members.prefixes[0]?.length === 0;
}

/** Binary search: O(log n) comparisons. */
export function hasMember(set: MemberSet, address: Address): boolean {
  const members = address.family === 4 ? set.v4 : set.v6;
  return hasPrefix(members.prefixes, address.value) || hasSingle(members, packAddress(address));
}

/** Like hasMember, for an address as text; false if the text is not an address. */
export function hasAddress(set: MemberSet, text: string): boolean {
  const address = parseAddress(text);
  return address !== null && hasMember(set, address);
}

function hasPrefix(prefixes: readonly Cidr[], value: bigint): boolean {
  let low = 0;
  let high = prefixes.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const prefix = prefixes[middle];
    if (prefix === undefined) return false;
    if (value < prefix.value) high = middle;
    else if (value > lastAddress(prefix)) low = middle + 1;
    else return true;
  }
  return false;
}

/** CIDRs and addresses as text: IPv4 first, each family sorted by address. */
export function formatMembers(set: MemberSet): string[] {
  return [...formatFamily(set.v4), ...formatFamily(set.v6)];
}

/** Merges singles and prefixes, which are both sorted. */
export function formatFamily({ family, singles, prefixes }: FamilyMembers): string[] {
  const width = WIDTH[family];
  const words: string[] = [];
  let next = 0;
  for (let at = 0; at < singles.length; at += width) {
    for (let prefix = prefixes[next]; prefix !== undefined; prefix = prefixes[++next]) {
      if (prefix.value > unpackAddress(family, singles, at).value) break;
      words.push(formatCidr(prefix));
    }
    words.push(formatSingle(family, singles, at));
  }
  return [...words, ...prefixes.slice(next).map(formatCidr)];
}

function formatSingle(family: Family, packed: Uint8Array, at: number): string {
  if (family === 4) return `${packed[at]}.${packed[at + 1]}.${packed[at + 2]}.${packed[at + 3]}`;
  return formatAddress(unpackAddress(family, packed, at));
}

export function sameMembers(
  a: Pick<FamilyMembers, 'singles' | 'prefixes'>,
  b: Pick<FamilyMembers, 'singles' | 'prefixes'>,
): boolean {
  return a === b || (samePrefixes(a.prefixes, b.prefixes) && sameSingles(a, b));
}

function samePrefixes(a: readonly Cidr[], b: readonly Cidr[]): boolean {
  return (
    a === b ||
    (a.length === b.length && a.every((p, i) => p.value === b[i]?.value && p.length === b[i]?.length))
  );
}
