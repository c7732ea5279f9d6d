/** With iptables, what agents.test.ts shows of nftables alone. */
process.env.NODEWALL_DATAPLANE = 'iptables-nft';
await import('./agents.test.ts');
