/** The address family of a table, in nft's words. */
export type Family = 'ip' | 'ip6' | 'inet' | 'arp' | 'bridge' | 'netdev';
