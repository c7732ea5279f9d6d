/** IP version. */
export type Family = 4 | 6;

/** One IP address as a number of its family's width. */
export interface Address {
  family: Family;
  value: bigint;
}

/** Every address from first to last, both included. */
export interface AddressRange {
  family: Family;
  first: bigint;
  last: bigint;
}

/** Number of bits in an address of the family. */
export function bitsOf(family: Family): number {
  return family === 4 ? 32 : 128;
}

/**
 * Reads an IPv4 or IPv6 address; undefined when the text is neither. IPv4-mapped IPv6 stays IPv6.
 */
export function parseAddress(text: string): Address | undefined {
  const value = text.includes(':') ? parseIPv6(text) : parseIPv4(text);
  return value === undefined ? undefined : { family: text.includes(':') ? 6 : 4, value };
}

/** Reads `address/length`; bits below the length are masked. Throws on anything else. */
export function parseCidr(text: string): AddressRange {
  const [base = '', length = '', ...rest] = text.split('/');
  const address = parseAddress(base);
  if (address === undefined || rest.length > 0 || !/^\d{1,3}$/.test(length)) {
    throw new Error(`not a CIDR: ${text}`);
  }
  const hostBits = bitsOf(address.family) - Number(length);
  if (hostBits < 0) throw new Error(`not a CIDR: ${text}`);
  const first = (address.value >> BigInt(hostBits)) << BigInt(hostBits);
  return { family: address.family, first, last: first + (1n << BigInt(hostBits)) - 1n };
}

/** True when the address lies in the range. */
export function inRange(range: AddressRange, address: Address): boolean {
  return range.family === address.family && range.first <= address.value && address.value <= range.last;
}

/** A text that is equal exactly for equal addresses, for use in a Set. */
export function addressKey(address: Address): string {
  return `${address.family}/${address.value}`;
}

/** The address as text; IPv6 in full, eight groups without leading zeros (no `::`). */
export function formatAddress(address: Address): string {
  const width = address.family === 4 ? 8 : 16;
  const count = address.family === 4 ? 4 : 8;
  const groups: bigint[] = [];
  for (let index = count - 1; index >= 0; index--) {
    groups.push((address.value >> BigInt(index * width)) & ((1n << BigInt(width)) - 1n));
  }
  return address.family === 4 ? groups.join('.') : groups.map((group) => group.toString(16)).join(':');
}

function parseIPv4(text: string): bigint | undefined {
  const parts = text.split('.');
  if (parts.length !== 4) return undefined;
  let value = 0n;
  for (const part of parts) {
    if (!/^(0|[1-9]\d{0,2})$/.test(part) || Number(part) > 255) return undefined;
    value = value * 256n + BigInt(part);
  }
  return value;
}

function parseIPv6(text: string): bigint | undefined {
  const halves = text.split('::');
  if (halves.length > 2) return undefined;
  const head = parseGroups(halves[0] ?? '', halves.length === 1);
  const tail = parseGroups(halves[1] ?? '', true);
  if (head === undefined || tail === undefined) return undefined;
  const missing = 8 - head.length - tail.length;
  if (halves.length === 1 ? missing !== 0 : missing < 1) return undefined;
  const groups = [...head, ...new Array<bigint>(missing).fill(0n), ...tail];
  return groups.reduce((value, group) => value * 65536n + group, 0n);
}

/** The 16-bit groups of one side of `::`; only the last side may end in a dotted IPv4 address. */
function parseGroups(text: string, isLast: boolean): bigint[] | undefined {
  if (text === '') return [];
  const parts = text.split(':');
  const groups: bigint[] = [];
  for (const [index, part] of parts.entries()) {
    if (isLast && index === parts.length - 1 && part.includes('.')) {
      const dotted = parseIPv4(part);
      if (dotted === undefined) return undefined;
      groups.push(dotted >> 16n, dotted & 0xffffn);
    } else if (/^[0-9a-fA-F]{1,4}$/.test(part)) {
      groups.push(BigInt(`0x${part}`));
    } else {
      return undefined;
    }
  }
  return groups;
}
