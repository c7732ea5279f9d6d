/** IP protocol numbers (IANA) of the protocols that policies name. */
export const PROTOCOL_NUMBERS = { icmp: 1, igmp: 2, tcp: 6, udp: 17, icmpv6: 58, sctp: 132 } as const;
