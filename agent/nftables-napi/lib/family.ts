/** The address family of a table, by nft's names. */
export type Family = 'ip' | 'ip6' | 'inet' | 'arp' | 'bridge' | 'netdev';
