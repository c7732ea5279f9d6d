/** With iptables-legacy, the suites that `npm test` runs with one iptables alone. */
process.env.NODEWALL_DATAPLANE = 'iptables-legacy';
await import('./atomic-language.test.ts');
await import('./cluster-agent.test.ts');
await import('./kinds.test.ts');
await import('./names.test.ts');
await import('./record.test.ts');
