import { type Family, parseAddress } from '../../../lib/net/address.ts';
import { internetChecksum } from '../../../lib/net/bytes.ts';
import { packAddress } from '../../../lib/net/member-set.ts';

/** Ethernet and IPv4: RFC 826. */
const START = Uint8Array.of(0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0);
const BROADCAST = new Uint8Array(6).fill(0xff);
const NO_MAC = new Uint8Array(6);
const NO_ADDRESS = new Uint8Array(4);
const REQUEST = 1;
const REPLY = 2;
/** Ethernet header and ARP packet, without padding. */
const ARP_LENGTH = 42;

/** Asks whether anybody has the address, without claiming it (RFC 5227 2.1.1). */
export function arpProbe(mac: Uint8Array, address: string): Uint8Array {
  return arpFrame(mac, REQUEST, [NO_ADDRESS, NO_MAC, packed(address, 4)]);
}

/**
 * Tells everybody who has the address: as a request (RFC 5227 2.3), and as a reply, for those who
 * only believe that.
 */
export function arpAnnouncements(mac: Uint8Array, address: string): Uint8Array[] {
  const own = packed(address, 4);
  return [arpFrame(mac, REQUEST, [own, NO_MAC, own]), arpFrame(mac, REPLY, [own, mac, own])];
}

/**
 * The MAC of a host that uses the address; null: the frame is of no such host. Who only asks for it
 * does not: switches do so for every address that they track, with the sender 0.0.0.0.
 */
export function arpClaim(bytes: Uint8Array, address: string): Uint8Array | null {
  if (bytes.length < ARP_LENGTH || !START.every((byte, i) => byte === bytes[12 + i])) return null;
  const sender = bytes.subarray(28, 32);
  return Buffer.compare(sender, packed(address, 4)) === 0 ? bytes.slice(22, 28) : null;
}

function arpFrame(
  mac: Uint8Array,
  operation: number,
  [senderAddress, targetMac, targetAddress]: readonly [Uint8Array, Uint8Array, Uint8Array],
): Uint8Array {
  const head = [BROADCAST, mac, START, Uint8Array.of(operation)];
  return Buffer.concat([...head, mac, senderAddress, targetMac, targetAddress]);
}

function packed(text: string, family: Family): Uint8Array {
  const address = parseAddress(text);
  if (address?.family !== family) throw new RangeError(`${text} is no IPv${family} address`);
  return packAddress(address);
}

const ETHERNET = 14;
const IPV6 = 40;
const AT = { next: ETHERNET + 6, type: ETHERNET + IPV6, target: ETHERNET + IPV6 + 8 };
/** With the target, without options. */
const SHORTEST_MESSAGE = ETHERNET + IPV6 + 24;
const ICMPV6 = 58;
const SOLICITATION = 135;
const ADVERTISEMENT = 136;
/** Those who know another MAC of the address take this one. */
const OVERRIDE = 0x20;
const TARGET_LINK_ADDRESS = 2;
const UNSPECIFIED = new Uint8Array(16);
const ALL_NODES = packed('ff02::1', 6);

/** Asks whether anybody has the address, without claiming it (RFC 4862 5.4.2). */
export function neighbourProbe(mac: Uint8Array, address: string): Uint8Array {
  const target = packed(address, 6);
  const group = Uint8Array.from(packed('ff02::1:ff00:0', 6));
  group.set(target.subarray(13), 13);
  return icmpFrame(mac, UNSPECIFIED, group, Buffer.concat([icmp(SOLICITATION, 0), target]));
}

/** Tells everybody who has the address: an unsolicited advertisement (RFC 4861 7.2.6). */
export function neighbourAnnouncement(mac: Uint8Array, address: string): Uint8Array {
  const target = packed(address, 6);
  const option = [Uint8Array.of(TARGET_LINK_ADDRESS, 1), mac];
  const message = Buffer.concat([icmp(ADVERTISEMENT, OVERRIDE), target, ...option]);
  return icmpFrame(mac, target, ALL_NODES, message);
}

/** The MAC of a host that uses the address; null: the frame is of no such host. */
export function neighbourClaim(bytes: Uint8Array, address: string): Uint8Array | null {
  if (bytes.length < SHORTEST_MESSAGE || bytes[AT.next] !== ICMPV6) return null;
  const target = bytes.subarray(AT.target, AT.target + 16);
  if (Buffer.compare(target, packed(address, 6)) !== 0) return null;
  return bytes[AT.type] === ADVERTISEMENT ? bytes.slice(6, 12) : null;
}

function icmp(type: number, flags: number): Uint8Array {
  return Uint8Array.of(type, 0, 0, 0, flags, 0, 0, 0);
}

/** To a multicast group; hop limit 255, without which nobody believes it. */
function icmpFrame(mac: Uint8Array, source: Uint8Array, group: Uint8Array, message: Uint8Array): Uint8Array {
  const to = Buffer.concat([Uint8Array.of(0x33, 0x33), group.subarray(12)]);
  const header = Uint8Array.of(0x60, 0, 0, 0, 0, message.length, ICMPV6, 255);
  const sum = internetChecksum(
    Buffer.concat([source, group, Uint8Array.of(0, 0, 0, message.length, 0, 0, 0, ICMPV6), message]),
  );
  const whole = Uint8Array.from(message);
  whole.set([sum >>> 8, sum & 0xff], 2);
  return Buffer.concat([to, mac, Uint8Array.of(0x86, 0xdd), header, source, group, whole]);
}
