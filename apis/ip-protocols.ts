/**
 * IP protocols by name. The names are IANA's keywords in lower case (registry protocol-numbers),
 * for OSPF, ICMPv6 and IP in IP those that people write (`ospf`, `icmpv6`, `ipip`).
 */
export const IP_PROTOCOLS: Readonly<Record<string, number>> = {
  hopopt: 0,
  icmp: 1,
  igmp: 2,
  ggp: 3,
  ipip: 4,
  st: 5,
  tcp: 6,
  egp: 8,
  igp: 9,
  pup: 12,
  udp: 17,
  hmp: 20,
  'xns-idp': 22,
  rdp: 27,
  'iso-tp4': 29,
  dccp: 33,
  xtp: 36,
  ddp: 37,
  'idpr-cmtp': 38,
  ipv6: 41,
  'ipv6-route': 43,
  'ipv6-frag': 44,
  idrp: 45,
  rsvp: 46,
  gre: 47,
  esp: 50,
  ah: 51,
  skip: 57,
  icmpv6: 58,
  'ipv6-nonxt': 59,
  'ipv6-opts': 60,
  vmtp: 81,
  eigrp: 88,
  ospf: 89,
  'ax.25': 93,
  etherip: 97,
  encap: 98,
  pim: 103,
  ipcomp: 108,
  vrrp: 112,
  l2tp: 115,
  isis: 124,
  sctp: 132,
  fc: 133,
  'mobility-header': 135,
  udplite: 136,
  'mpls-in-ip': 137,
  manet: 138,
  hip: 139,
  shim6: 140,
  wesp: 141,
  rohc: 142,
  ethernet: 143,
};

/** IANA's keywords for those three. Its IPIP is 94, and no tunnel of Linux. */
const OTHER_NAMES: Readonly<Record<string, number>> = { ospfigp: 89, 'ipv6-icmp': 58, ipv4: 4 };

/** All names that policies may have, in lower case. */
export const PROTOCOL_WORDS: readonly string[] = [IP_PROTOCOLS, OTHER_NAMES].flatMap(Object.keys);

const NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(IP_PROTOCOLS).map(([name, number]) => [number, name]),
);

/** The number of a name in any case, undefined if there is no such name; a number stays. */
export function namedProtocolNumber(written: string | number): number | undefined {
  if (typeof written === 'number') return written;
  const name = written.toLowerCase();
  const names = [IP_PROTOCOLS, OTHER_NAMES].find((one) => Object.hasOwn(one, name));
  return names?.[name];
}

/** The name of a number, or else the number; a name stays. */
export function ipProtocolName(protocol: string | number): string {
  return typeof protocol === 'string' ? protocol : (NAMES.get(protocol) ?? `${protocol}`);
}

/** As a policy has it: the name, or the number where there is none. */
export function writtenProtocol(number: number): string | number {
  return NAMES.get(number) ?? number;
}

/** For people: `gre`, or `protocol 253` where there is no name. */
export function ipProtocolText(number: number): string {
  return NAMES.get(number) ?? `protocol ${number}`;
}

/**
 * Extension headers of IPv6, which the kernel skips to find the protocol of a packet
 * (ipv6_find_hdr): hop-by-hop options, routing, fragment, destination options. So no packet of
 * IPv6 has these protocols.
 */
export const SKIPPED_HEADERS: readonly number[] = [0, 43, 44, 60];

/** AH: of IPv6 an extension header too, at which nftables ends the search. */
export const AUTHENTICATION_HEADER = 51;
