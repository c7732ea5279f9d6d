/** The rows of random differences by packets before and after, thirty pairs more. */
process.env.NODEWALL_PAIRS ??= '30';
await import('./difference.test.ts');
