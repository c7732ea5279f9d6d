import { type Ipset, IpsetError, type SavedSet, type SetDefinition } from 'ipset-ts';
import {
  BITS,
  type Cidr,
  type Family,
  formatCidr,
  ipv4Number,
  parseAddress,
  parseCidr,
  WIDTH,
} from '../../../lib/net/address.ts';
import { packAddress } from '../../../lib/net/member-set.ts';
import { compareAt, concat } from '../../../lib/net/packed-keys.ts';
import { present } from '../../../lib/sharing/present.ts';
import { type IpSet, SET_PREFIX } from '../../render/iptables/tables.ts';
import { KEY_LENGTH, type SetMembers } from '../../render/ruleset.ts';

/** A set in the kernel. */
export interface KernelSet {
  readonly family: Family;
  /** A set whose type isn't an IpSet['type'] can only be replaced. */
  readonly type: string;
  readonly maxelem: number;
  /**
   * Members as `holdable` returns them. Null: the set has something that is never in a set of ours.
   */
  readonly members: SetMembers | null;
  /** The members have a timeout; they are not read. Absent: they have none. */
  readonly timed?: true;
}

const IPSET_FAMILY = { 4: 'inet', 6: 'inet6' } as const;
/** The kernel's default for a set without the option. */
const MIN_MAXELEM = 65_536;

export function memberWidth({ type, family }: Pick<IpSet, 'type' | 'family'>): number {
  return KEY_LENGTH[type === 'hash:ip,port' ? 'service' : 'address'][family];
}

export function ipsetMemberCount(
  set: Pick<IpSet, 'type' | 'family'>,
  { singles, prefixes }: SetMembers,
): number {
  return singles.length / memberWidth(set) + prefixes.length;
}

/**
 * The members that ipset can hold. A hash:net can't hold /0, so its two halves replace it. A
 * hash:ip or hash:ip,port can't hold the address 0.0.0.0 (or ::), so such members are left out;
 * `lacking` is their number. Returns the same object if neither applies.
 */
export function holdable(set: IpSet): { readonly members: SetMembers; readonly lacking: number } {
  const { members, type, family } = set;
  if (members.prefixes[0]?.length === 0)
    return { members: { ...copied(members), prefixes: halves(family) }, lacking: 0 };
  if (type === 'hash:net') return { members, lacking: 0 };
  const width = memberWidth(set);
  const { singles } = members;
  let zeros = 0;
  // The members are sorted, so zeros come first.
  while (zeros < singles.length && isZero(singles, zeros, WIDTH[family])) zeros += width;
  if (zeros === 0) return { members, lacking: 0 };
  return { members: { ...copied(members), singles: singles.subarray(zeros) }, lacking: zeros / width };
}

function copied({ singles, prefixes }: SetMembers): SetMembers {
  return { singles, prefixes };
}

function isZero(packed: Uint8Array, at: number, width: number): boolean {
  for (let i = at; i < at + width; i++) if (packed[i] !== 0) return false;
  return true;
}

function halves(family: Family): Cidr[] {
  const upper = 1n << BigInt(BITS[family] - 1);
  return [
    { family, value: 0n, length: 1 },
    { family, value: upper, length: 1 },
  ];
}

export function toKernelSet(set: IpSet, { maxelem }: Pick<KernelSet, 'maxelem'>): KernelSet {
  const { family, type, timeout } = set;
  const members = holdable(set).members;
  return timeout === undefined
    ? { family, type, maxelem, members }
    : { family, type, maxelem, members: NO_MEMBERS, timed: true };
}

/**
 * The definition of a set with room for at least twice these members, because the kernel never
 * raises `maxelem`.
 */
export function definition(name: string, set: IpSet): SetDefinition & { readonly maxelem: number } {
  const count = ipsetMemberCount(set, set.members);
  return {
    name,
    type: set.type,
    family: IPSET_FAMILY[set.family],
    // One or two members for each bucket, which has room for 12, so that the table need not grow
    // while it is filled.
    hashsize: Math.max(64, powerOfTwo(count) / 2),
    maxelem: Math.max(MIN_MAXELEM, powerOfTwo(2 * count)),
    ...present({ timeout: set.timeout }),
  };
}

function powerOfTwo(atLeast: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(1, atLeast)));
}

/** The members as entries of `ipset add` and `ipset del`. */
export function* entries(
  { type, family }: Pick<IpSet, 'type' | 'family'>,
  { singles, prefixes }: SetMembers,
): Generator<string> {
  const width = memberWidth({ type, family });
  for (let at = 0; at < singles.length; at += width) {
    const address = addressText(family, singles, at);
    yield type === 'hash:ip,port' ? `${address},${portText(singles, at + WIDTH[family])}` : address;
  }
  for (const prefix of prefixes) yield formatCidr(prefix);
}

function addressText(family: Family, packed: Uint8Array, at: number): string {
  if (family === 4) return `${packed[at]}.${packed[at + 1]}.${packed[at + 2]}.${packed[at + 3]}`;
  // Without `::`: ipset accepts both forms, and for 100,000 addresses this one is ten times as fast
  // to make as the short one.
  let text = '';
  for (let i = at; i < at + 16; i += 2) {
    text += `${i === at ? '' : ':'}${(((packed[i] ?? 0) << 8) | (packed[i + 1] ?? 0)).toString(16)}`;
  }
  return text;
}

const PROTOCOLS: ReadonlyMap<string, number> = new Map([
  ['tcp', 6],
  ['udp', 17],
  ['sctp', 132],
]);
const PROTOCOL_NAMES: ReadonlyMap<number, string> = new Map(
  [...PROTOCOLS].map(([name, number]) => [number, name]),
);

function portText(packed: Uint8Array, at: number): string {
  const number = packed[at] ?? 0;
  const port = ((packed[at + 4] ?? 0) << 8) | (packed[at + 5] ?? 0);
  return `${PROTOCOL_NAMES.get(number) ?? number}:${port}`;
}

/** Our sets in the kernel, by name. Throws IpsetError. */
export async function readSets(ipset: Ipset): Promise<Map<string, KernelSet>> {
  const ours = (await savedSets(ipset)).filter(({ name }) => name.startsWith(SET_PREFIX));
  return new Map(ours.map((set) => [set.name, readSet(set)]));
}

/**
 * ipset may be unable to print all: a set of others has a revision of its type that a newer ipset
 * has made, or a name of two lines. Then only ours are read, one by one.
 */
async function savedSets(ipset: Ipset): Promise<readonly SavedSet[]> {
  try {
    return await ipset.save();
  } catch (error) {
    if (!(error instanceof IpsetError) || error.code !== 'UNKNOWN') throw error;
    const sets: SavedSet[] = [];
    for (const name of await ipset.names())
      if (name.startsWith(SET_PREFIX)) sets.push(...(await ipset.save(name)));
    return sets;
  }
}

function readSet(set: SavedSet): KernelSet {
  const { type, maxelem, timeout } = set;
  const family = set.family === 'inet' ? 4 : 6;
  const known = { family, type, maxelem: maxelem ?? MIN_MAXELEM } as const;
  if (timeout !== null) return { ...known, members: NO_MEMBERS, timed: true };
  return { ...known, members: TYPES.has(type) ? readMembers(family, set) : null };
}

const TYPES: ReadonlySet<string> = new Set<IpSet['type']>(['hash:ip', 'hash:net', 'hash:ip,port']);

const NO_MEMBERS: SetMembers = { singles: new Uint8Array(), prefixes: [] };

function readMembers(family: Family, set: SavedSet): SetMembers | null {
  const width = set.type === 'hash:ip,port' ? KEY_LENGTH.service[family] : KEY_LENGTH.address[family];
  const prefixes: Cidr[] = [];
  const numbers: number[] = [];
  const keys: Uint8Array[] = [];
  for (const entry of set.entries) {
    const [element = '', ...options] = entry.split(' ');
    if (options.includes('nomatch')) return null;
    const [text = '', port] = element.split(',');
    if (port !== undefined) {
      const key = readService(family, text, port);
      if (key === null) return null;
      keys.push(key);
    } else if (text.includes('/')) {
      const prefix = parseCidr(text);
      if (prefix === null) return null;
      prefixes.push(prefix.cidr);
    } else if (family === 4) numbers.push(ipv4Number(text));
    else {
      const address = parseAddress(text);
      if (address === null) return null;
      keys.push(packAddress(address));
    }
  }
  prefixes.sort((a, b) => (a.value < b.value ? -1 : a.value > b.value ? 1 : a.length - b.length));
  const singles = numbers.length > 0 ? packNumbers(numbers) : packSorted(keys, width);
  return { singles, prefixes };
}

function packNumbers(numbers: readonly number[]): Uint8Array {
  const packed = new DataView(new ArrayBuffer(4 * numbers.length));
  new Uint32Array(numbers).sort().forEach((number, i) => {
    packed.setUint32(4 * i, number);
  });
  return new Uint8Array(packed.buffer);
}

function packSorted(keys: Uint8Array[], width: number): Uint8Array {
  return concat(keys.sort((a, b) => compareAt(a, 0, b, 0, width)));
}

/** A key in the layout of KEY_LENGTH.service; null for a protocol that no set of ours names. */
function readService(family: Family, ip: string, text: string): Uint8Array | null {
  const [name = '', port] = text.split(':');
  const protocol = PROTOCOLS.get(name);
  const address = parseAddress(ip);
  if (protocol === undefined || address === null) return null;
  const key = new Uint8Array(KEY_LENGTH.service[family]);
  key.set(packAddress(address));
  key[WIDTH[family]] = protocol;
  new DataView(key.buffer).setUint16(WIDTH[family] + 4, Number(port));
  return key;
}
