/** Floating addresses under floods, with 60 changes of their owner, of which 20 kill its agent. */
process.env.NODEWALL_LONG_FLOODS = '1';
await import('./floating.test.ts');
