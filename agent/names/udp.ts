import type { Address } from '../../lib/net/address.ts';

/** The result of udpPayload. */
export type Opened =
  | ({ readonly kind: 'payload'; readonly payload: Uint8Array } & Ends)
  /** A fragment, or a truncated packet. */
  | { readonly kind: 'incomplete' }
  /** Not UDP over IP, or malformed. */
  | { readonly kind: 'garbage' };

interface Ends {
  readonly source: Address;
  readonly destination: Address;
  readonly sourcePort: number;
  readonly destinationPort: number;
}

const UDP = 17;
const UDP_HEADER = 8;
const IPV6_HEADER = 40;
const FRAGMENT = 44;
/** IPv6 extension headers that may precede UDP and have their length in units of 8 bytes. */
const EXTENSIONS: ReadonlySet<number> = new Set([0, 43, 60]);
const GARBAGE: Opened = { kind: 'garbage' };
const INCOMPLETE: Opened = { kind: 'incomplete' };

/**
 * The payload of a UDP packet that starts with its IP header. Shares the packet's memory. Never
 * throws.
 */
export function udpPayload(packet: Uint8Array): Opened {
  const view = new DataView(packet.buffer, packet.byteOffset, packet.byteLength);
  if (view.byteLength === 0) return GARBAGE;
  const version = view.getUint8(0) >> 4;
  if (version === 4) return insideIPv4(view);
  return version === 6 ? insideIPv6(view) : GARBAGE;
}

function insideIPv4(view: DataView): Opened {
  if (view.byteLength < 20) return GARBAGE;
  const headerLength = (view.getUint8(0) & 15) * 4;
  if (headerLength < 20 || view.getUint8(9) !== UDP) return GARBAGE;
  // More fragments follow, or this is not the first one.
  if ((view.getUint16(6) & 0x3fff) !== 0) return INCOMPLETE;
  const address = (at: number): Address => ({ family: 4, value: BigInt(view.getUint32(at)) });
  return insideUDP(view, headerLength, { source: address(12), destination: address(16) });
}

function insideIPv6(view: DataView): Opened {
  if (view.byteLength < IPV6_HEADER) return GARBAGE;
  let next = view.getUint8(6);
  let at = IPV6_HEADER;
  while (EXTENSIONS.has(next) || next === FRAGMENT) {
    if (at + 8 > view.byteLength) return GARBAGE;
    if (next === FRAGMENT && (view.getUint16(at + 2) & 0xfff9) !== 0) return INCOMPLETE;
    const length = next === FRAGMENT ? 8 : 8 * (view.getUint8(at + 1) + 1);
    next = view.getUint8(at);
    at += length;
  }
  if (next !== UDP) return GARBAGE;
  const address = (from: number): Address => ({
    family: 6,
    value: (view.getBigUint64(from) << 64n) | view.getBigUint64(from + 8),
  });
  return insideUDP(view, at, { source: address(8), destination: address(24) });
}

function insideUDP(view: DataView, at: number, ends: Pick<Ends, 'source' | 'destination'>): Opened {
  if (at + UDP_HEADER > view.byteLength) return GARBAGE;
  const length = view.getUint16(at + 4);
  if (length < UDP_HEADER) return GARBAGE;
  if (at + length > view.byteLength) return INCOMPLETE;
  return {
    kind: 'payload',
    ...ends,
    sourcePort: view.getUint16(at),
    destinationPort: view.getUint16(at + 2),
    payload: new Uint8Array(view.buffer, view.byteOffset + at + UDP_HEADER, length - UDP_HEADER),
  };
}
