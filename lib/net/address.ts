import { isIPv4, isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';

/**
 * IP addresses and CIDRs as numbers. node:net decides which texts are valid (strict: four decimal
 * parts, no leading zeros, no zone); ipaddr.js writes IPv6, in the form of RFC 5952.
 */

export type Family = 4 | 6;
/**
 * Private, shared (RFC 6598) and unique local addresses (CIDRs): nothing on the Internet has them.
 */
export const PRIVATE_NETWORKS = [
  '10.0.0.0/8',
  '100.64.0.0/10',
  '172.16.0.0/12',
  '192.168.0.0/16',
  'fc00::/7',
] as const;

export const FAMILIES = [4, 6] as const satisfies readonly Family[];

/** Address length in bytes. */
export const WIDTH = { 4: 4, 6: 16 } as const;
/** Address length in bits. */
export const BITS = { 4: 32, 6: 128 } as const;

/** An IP address as a number. */
export interface Address {
  readonly family: Family;
  readonly value: bigint;
}

/** A prefix; `value` has no bits set beyond `length`. */
export interface Cidr {
  readonly family: Family;
  readonly value: bigint;
  readonly length: number;
}

/** An IPv4 address as an unsigned 32-bit number; the text must have passed isIPv4. */
export function ipv4Number(text: string): number {
  let value = 0;
  let part = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 46) {
      value = value * 256 + part;
      part = 0;
    } else part = part * 10 + code - 48;
  }
  return value * 256 + part;
}

/**
 * An IPv6 address as a number; the text must have passed isIPv6. ipaddr.js takes 10 times as long,
 * and splitting the text 3 times, which counts for 100,000 pods.
 */
function ipv6Value(text: string): bigint {
  if (text.includes('.')) return ipv6Value(withoutIpv4Tail(text));
  const groups: number[] = [];
  // Where '::' is.
  let gap = 8;
  let group = -1;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code !== COLON) group = Math.max(0, group) * 16 + hexDigit(code);
    else if (group >= 0) {
      groups.push(group);
      group = -1;
    } else gap = groups.length;
  }
  if (group >= 0) groups.push(group);
  const zeros = 8 - groups.length;
  const at = (i: number): number => {
    if (i >= gap && i < gap + zeros) return 0;
    return groups[i < gap ? i : i - zeros] ?? 0;
  };
  const half = (i: number): bigint => BigInt(at(i) * 65536 + at(i + 1));
  return (((((half(0) << 32n) | half(2)) << 32n) | half(4)) << 32n) | half(6);
}

const COLON = 58;

function hexDigit(code: number): number {
  return code < COLON ? code - 48 : (code | 32) - 87;
}

/** The last two groups may be written as an IPv4 address. */
function withoutIpv4Tail(text: string): string {
  const tail = text.lastIndexOf(':') + 1;
  const value = ipv4Number(text.slice(tail));
  return `${text.slice(0, tail)}${(value >>> 16).toString(16)}:${(value & 65535).toString(16)}`;
}

/** The address of a text; null if the text is not an IP address, or has a zone. */
export function parseAddress(text: string): Address | null {
  if (isIPv4(text)) return { family: 4, value: BigInt(ipv4Number(text)) };
  if (!isIPv6(text) || text.includes('%')) return null;
  return { family: 6, value: ipv6Value(text) };
}

/** The family of a text that is an address: of IPv6, a colon ends the first group at the latest. */
export function familyOf(text: string): Family {
  for (let i = 0; i <= 4; i++) if (text.charCodeAt(i) === COLON) return 6;
  return 4;
}

export function formatAddress({ family, value }: Address): string {
  if (family === 4) {
    const n = Number(value);
    return `${n >>> 24}.${(n >>> 16) & 255}.${(n >>> 8) & 255}.${n & 255}`;
  }
  const parts: number[] = [];
  for (let shift = 112n; shift >= 0n; shift -= 16n) parts.push(Number((value >> shift) & 0xffffn));
  return new ipaddr.IPv6(parts).toRFC5952String();
}

/** Mask with all bits set that a prefix of this length leaves free. */
function hostMask(family: Family, length: number): bigint {
  return (1n << BigInt(BITS[family] - length)) - 1n;
}

/**
 * Parses `address/length`; null if the text has another form. `hostBits`: whether the address had
 * bits set after the prefix; they are masked off.
 */
export function parseCidr(text: string): { readonly cidr: Cidr; readonly hostBits: boolean } | null {
  const match = /^([^/]+)\/(0|[1-9]\d{0,2})$/.exec(text);
  const address = parseAddress(match?.[1] ?? '');
  const length = Number(match?.[2]);
  if (address === null || length > BITS[address.family]) return null;
  const free = hostMask(address.family, length);
  const value = address.value & ~free;
  return { cidr: { family: address.family, value, length }, hostBits: value !== address.value };
}

/** The IPv4 network that an IPv4-mapped one stands for (::ffff:0:0/96); null: it is not one. */
export function ipv4Of({ family, value, length }: Cidr): Cidr | null {
  if (family === 4 || length < 96 || value >> 32n !== 0xffffn) return null;
  return { family: 4, value: value & 0xffff_ffffn, length: length - 96 };
}

/** An IPv4-mapped address in the form of IPv4; any other text as it is. */
export function unmappedText(text: string): string {
  const address = text.includes(':') ? parseAddress(text) : null;
  const mapped = address === null ? null : ipv4Of({ ...address, length: BITS[address.family] });
  return mapped === null ? text : formatAddress(mapped);
}

/** Formats as `address/length`; a single address without its length. */
export function formatCidr(cidr: Cidr): string {
  const address = formatAddress(cidr);
  return cidr.length === BITS[cidr.family] ? address : `${address}/${cidr.length}`;
}

export function lastAddress(cidr: Cidr): bigint {
  return cidr.value | hostMask(cidr.family, cidr.length);
}

/** Whether one of the blocks contains the address. */
export function isCovered(blocks: readonly Cidr[], { family, value }: Address): boolean {
  return blocks.some((block) => covers(block, { family, value, length: BITS[family] }));
}

export function covers(outer: Cidr, inner: Cidr): boolean {
  return (
    outer.family === inner.family && outer.value <= inner.value && lastAddress(inner) <= lastAddress(outer)
  );
}

/** A MAC address as `ip` and `nft` write it. */
export function formatMac(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join(':');
}
