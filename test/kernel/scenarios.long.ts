/** Two hundred random scenarios: the kernel and the oracle, and the dataplanes among each other. */
process.env.NODEWALL_SEEDS ??= '200';
await import('./oracle.test.ts');
await import('./dataplanes.test.ts');
