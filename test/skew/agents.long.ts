/** With iptables, what agents.test.ts shows of nftables alone, and floods at the usual rate. */
process.env.NODEWALL_VARIATIONS = '1';
await import('./agents.test.ts');
