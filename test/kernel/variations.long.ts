/**
 * Variations of claims that `npm test` keeps: in dataplanes, families and forms of rules that it
 * leaves out. Those under floods are in floods.long.ts.
 */
process.env.NODEWALL_VARIATIONS = '1';
await import('./bad-input.test.ts');
await import('./cluster-agent.test.ts');
await import('./dataplanes.test.ts');
await import('./drift-iptables.test.ts');
await import('./established.test.ts');
await import('./failsafe-nat.test.ts');
await import('./failsafe-untracked.test.ts');
await import('./footprints.test.ts');
await import('./full-disk.test.ts');
await import('./interfaces.test.ts');
await import('./ipset.test.ts');
await import('./kinds.test.ts');
await import('./left-overs.test.ts');
await import('./local-pods.test.ts');
await import('./masquerade.test.ts');
await import('./names.test.ts');
await import('./nodeport.test.ts');
await import('./odd-packets.test.ts');
await import('./off.test.ts');
await import('./record-hindered.test.ts');
await import('./record.test.ts');
await import('./spoofed.test.ts');
await import('../../build/demo/demo.test.ts');
