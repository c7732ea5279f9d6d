import { type Address, parseAddress } from '../../../lib/net/address.ts';
import { packAddress } from '../../../lib/net/member-set.ts';

/** Ethernet and IPv4: RFC 826. */
const START = Uint8Array.of(0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0);
const BROADCAST = new Uint8Array(6).fill(0xff);
const NO_MAC = new Uint8Array(6);
const NO_ADDRESS = new Uint8Array(4);
const REQUEST = 1;
const REPLY = 2;
/** Ethernet header and ARP packet, without padding. */
const LENGTH = 42;

/** Asks whether anybody has the address, without claiming it (RFC 5227 2.1.1). */
export function arpProbe(mac: Uint8Array, address: string): Uint8Array {
  return frame(mac, REQUEST, [NO_ADDRESS, NO_MAC, bytesOf(address)]);
}

/**
 * Tells everybody who has the address: as a request (RFC 5227 2.3), and as a reply, for those who
 * only believe that.
 */
export function arpAnnouncements(mac: Uint8Array, address: string): Uint8Array[] {
  const own = bytesOf(address);
  return [frame(mac, REQUEST, [own, NO_MAC, own]), frame(mac, REPLY, [own, mac, own])];
}

/**
 * The MAC of a host that uses the address; null: the frame is of no such host. Who only asks for it
 * does not: switches do so for every address that they track, with the sender 0.0.0.0.
 */
export function arpClaim(bytes: Uint8Array, address: string): Uint8Array | null {
  if (bytes.length < LENGTH || !START.every((byte, i) => byte === bytes[12 + i])) return null;
  const sender = bytes.subarray(28, 32);
  return Buffer.compare(sender, bytesOf(address)) === 0 ? bytes.slice(22, 28) : null;
}

function frame(
  mac: Uint8Array,
  operation: number,
  [senderAddress, targetMac, targetAddress]: readonly [Uint8Array, Uint8Array, Uint8Array],
): Uint8Array {
  const head = [BROADCAST, mac, START, Uint8Array.of(operation)];
  return Buffer.concat([...head, mac, senderAddress, targetMac, targetAddress]);
}

function bytesOf(text: string): Uint8Array {
  const address: Address | null = parseAddress(text);
  if (address?.family !== 4) throw new RangeError(`${text} is no IPv4 address`);
  return packAddress(address);
}
