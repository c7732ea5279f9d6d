import { isIPv4, isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';

/**
 * IP addresses and CIDRs as numbers. node:net decides which texts are valid (strict: four decimal
 * parts, no leading zeros, no zone); ipaddr.js reads and writes IPv6, in the form of RFC 5952.
 */

export type Family = 4 | 6;
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

/** The address of a text; null if the text is not an IP address, or has a zone. */
export function parseAddress(text: string): Address | null {
  if (isIPv4(text)) return { family: 4, value: BigInt(ipv4Number(text)) };
  if (!isIPv6(text) || text.includes('%')) return null;
  let value = 0n;
  for (const part of ipaddr.IPv6.parse(text).parts) value = (value << 16n) | BigInt(part);
  return { family: 6, value };
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
