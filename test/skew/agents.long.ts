/** With iptables, what agents.test.ts shows of nftables alone. */
process.env.NODEWALL_VARIATIONS = '1';
await import('./agents.test.ts');
