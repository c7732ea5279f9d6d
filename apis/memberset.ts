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
import { type Interval, subtract, toCidrs, toInterval, union } from './interval.ts';

/**
 * The members of an AddressSet in one family. No address is in both parts.
 * `singles` are packed as the kernel takes them: network byte order, `WIDTH[family]` bytes each, sorted, unique;
 * 100,000 IPv4 addresses are 400 kB and one allocation.
 */
export interface FamilyMembers {
  readonly family: Family;
  readonly singles: Uint8Array;
  /** Sorted, disjoint and as few as cover the static blocks; none is a single address. */
  readonly prefixes: readonly Cidr[];
}

export interface MemberSet {
  readonly v4: FamilyMembers;
  readonly v6: FamilyMembers;
}

export interface Block {
  readonly cidr: Cidr;
  readonly except: readonly Cidr[];
}

/**
 * Members of the union of static blocks and of addresses given as text (each must be a valid IP address).
 * Static blocks are merged to the fewest prefixes; the other addresses stay single, so that a later change of
 * theirs is one element's and never touches a prefix. An address that a prefix covers is left out.
 */
export function toMemberSet(blocks: readonly Block[], addresses: Iterable<string>): MemberSet {
  const v4: number[] = [];
  const v6: bigint[] = [];
  for (const text of addresses) {
    if (isIPv4(text)) v4.push(ipv4Number(text));
    else {
      const address = parseAddress(text);
      if (address === null) throw new TypeError(`${text} is no IP address`);
      v6.push(address.value);
    }
  }
  const prefixes4 = mergeBlocks(4, blocks);
  const prefixes6 = mergeBlocks(6, blocks);
  for (const { value, length } of prefixes4) if (length === BITS[4]) v4.push(Number(value));
  for (const { value, length } of prefixes6) if (length === BITS[6]) v6.push(value);
  return {
    v4: { family: 4, singles: packIPv4(v4, wide(prefixes4)), prefixes: wide(prefixes4) },
    v6: { family: 6, singles: packIPv6(v6, wide(prefixes6)), prefixes: wide(prefixes6) },
  };
}

/** The members and some addresses more. */
export function addAddresses({ v4, v6 }: MemberSet, addresses: Iterable<string>): MemberSet {
  const added = toMemberSet([], addresses);
  return { v4: withSingles(v4, added.v4), v6: withSingles(v6, added.v6) };
}

function withSingles(members: FamilyMembers, { singles: added }: FamilyMembers): FamilyMembers {
  if (added.length === 0) return members;
  const { family, prefixes } = members;
  const all = Buffer.concat([members.singles, added]);
  const values = Array.from({ length: all.length / WIDTH[family] }, (_, i) =>
    unpackAddress(family, all, i * WIDTH[family]),
  );
  const singles =
    family === 4
      ? packIPv4(
          values.map(({ value }) => Number(value)),
          prefixes,
        )
      : packIPv6(
          values.map(({ value }) => value),
          prefixes,
        );
  return { family, singles, prefixes };
}

function wide(prefixes: readonly Cidr[]): Cidr[] {
  return prefixes.filter((prefix) => prefix.length < BITS[prefix.family]);
}

/** The union of the blocks less their own exceptions, as few prefixes as can be. */
function mergeBlocks(family: Family, blocks: readonly Block[]): Cidr[] {
  const parts: Interval[] = [];
  for (const { cidr, except } of blocks) {
    if (cidr.family !== family) continue;
    parts.push(...subtract([toInterval(cidr)], union(except.map(toInterval))));
  }
  return union(parts).flatMap((interval) => toCidrs(family, interval));
}

function packIPv4(values: readonly number[], prefixes: readonly Cidr[]): Uint8Array {
  const sorted = Uint32Array.from(values).sort();
  const bounds = prefixes.map((prefix) => [Number(prefix.value), Number(lastAddress(prefix))] as const);
  const packed = new DataView(new ArrayBuffer(sorted.length * 4));
  let count = 0;
  let previous = -1;
  let at = 0;
  for (const value of sorted) {
    if (value === previous) continue;
    previous = value;
    while ((bounds[at]?.[1] ?? value) < value) at++;
    if ((bounds[at]?.[0] ?? Number.POSITIVE_INFINITY) <= value) continue;
    packed.setUint32(4 * count++, value);
  }
  return new Uint8Array(packed.buffer.slice(0, 4 * count));
}

function packIPv6(values: bigint[], prefixes: readonly Cidr[]): Uint8Array {
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

/** The address at byte `offset` of packed singles. */
export function unpackAddress(family: Family, packed: Uint8Array, offset: number): Address {
  let value = 0n;
  for (let i = 0; i < WIDTH[family]; i++) value = (value << 8n) | BigInt(packed[offset + i] ?? 0);
  return { family, value };
}

/** One address, packed. */
export function packAddress({ family, value }: Address): Uint8Array {
  const packed = new Uint8Array(WIDTH[family]);
  for (let i = packed.length - 1, rest = value; i >= 0; i--, rest >>= 8n) packed[i] = Number(rest & 255n);
  return packed;
}

export function memberCount({ singles, prefixes, family }: FamilyMembers): number {
  return singles.length / WIDTH[family] + prefixes.length;
}

/** Whether the members are every address of the family. */
export function coversFamily(members: FamilyMembers): boolean {
  return members.prefixes[0]?.length === 0;
}

/** Binary search: log n comparisons. */
export function hasMember(set: MemberSet, address: Address): boolean {
  const { singles, prefixes } = address.family === 4 ? set.v4 : set.v6;
  return hasPrefix(prefixes, address.value) || hasSingle(singles, packAddress(address));
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

function hasSingle(singles: Uint8Array, key: Uint8Array): boolean {
  let low = 0;
  let high = singles.length / key.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const order = compareAt(singles, middle * key.length, key, 0, key.length);
    if (order === 0) return true;
    if (order < 0) low = middle + 1;
    else high = middle;
  }
  return false;
}

function compareAt(a: Uint8Array, atA: number, b: Uint8Array, atB: number, width: number): number {
  for (let i = 0; i < width; i++) {
    const difference = (a[atA + i] ?? 0) - (b[atB + i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/**
 * Packed keys of `width` bytes in `desired` but not in `current`, and the other way round; both sorted. What is equal at both ends is compared as
 * memory, the rest merged: one change among 100,000 keys costs microseconds.
 */
export function diffSingles(
  width: number,
  current: Uint8Array,
  desired: Uint8Array,
): { readonly added: Uint8Array; readonly removed: Uint8Array } {
  const start = commonKeys(current, desired, width, 'start');
  const rest = { current: current.subarray(start), desired: desired.subarray(start) };
  const end = commonKeys(rest.current, rest.desired, width, 'end');
  return mergeKeys(
    rest.current.subarray(0, rest.current.length - end),
    rest.desired.subarray(0, rest.desired.length - end),
    width,
  );
}

/** Bytes of whole keys that both have in common at one end: a binary search over memory comparisons. */
function commonKeys(a: Uint8Array, b: Uint8Array, width: number, at: 'start' | 'end'): number {
  const slice = (keys: Uint8Array, from: number, to: number): Uint8Array =>
    at === 'start' ? keys.subarray(from, to) : keys.subarray(keys.length - to, keys.length - from);
  let low = 0;
  let high = Math.min(a.length, b.length) / width;
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    const equal =
      Buffer.compare(slice(a, low * width, middle * width), slice(b, low * width, middle * width)) === 0;
    if (equal) low = middle;
    else high = middle - 1;
  }
  return low * width;
}

function mergeKeys(
  current: Uint8Array,
  desired: Uint8Array,
  width: number,
): { readonly added: Uint8Array; readonly removed: Uint8Array } {
  const added: Uint8Array[] = [];
  const removed: Uint8Array[] = [];
  let c = 0;
  let d = 0;
  while (c < current.length || d < desired.length) {
    const order =
      c >= current.length ? 1 : d >= desired.length ? -1 : compareAt(current, c, desired, d, width);
    if (order < 0) removed.push(current.subarray(c, c + width));
    if (order > 0) added.push(desired.subarray(d, d + width));
    if (order <= 0) c += width;
    if (order >= 0) d += width;
  }
  return { added: Buffer.concat(added), removed: Buffer.concat(removed) };
}

/** CIDRs and addresses as text: IPv4 first, each family sorted by address. */
export function formatMembers(set: MemberSet): string[] {
  return [...formatFamily(set.v4), ...formatFamily(set.v6)];
}

/** One merge of the sorted parts. */
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
  if (a.singles === b.singles && a.prefixes === b.prefixes) return true;
  return (
    Buffer.compare(a.singles, b.singles) === 0 &&
    a.prefixes.length === b.prefixes.length &&
    a.prefixes.every((p, i) => p.value === b.prefixes[i]?.value && p.length === b.prefixes[i]?.length)
  );
}
