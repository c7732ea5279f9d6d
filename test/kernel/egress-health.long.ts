/** Lost gateways, with what takes longer: Spread, floods, restarts, probes, interfaces. */
process.env.NODEWALL_LONG_FLOODS = '1';
await import('./egress-health.test.ts');
