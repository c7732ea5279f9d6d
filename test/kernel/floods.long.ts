/** The floods of `npm test`, ten times as long and as fast as the machine can. */
process.env.NODEWALL_LONG_FLOODS = '1';
process.env.NODEWALL_VARIATIONS = '1';
await import('./atomic-language.test.ts');
await import('./atomic-swap.test.ts');
await import('./moving-address.test.ts');
await import('./nodeport-flood.test.ts');
await import('./restart.test.ts');
