/** 20,000 campaigns: 21 minutes of processor time. */
process.env.NODEWALL_CAMPAIGNS ??= '20000';
await import('./egress-leases.test.ts');
