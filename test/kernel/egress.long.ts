/** Egress gateways under 50 changes of policies, with the agent killed 12 times. */
process.env.NODEWALL_LONG_FLOODS = '1';
await import('./egress.test.ts');
