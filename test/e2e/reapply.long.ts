/** Objects applied one after another, ten times as many. */
process.env.NODEWALL_MORE_PAIRS ??= '10';
await import('./controllers/reapply.test.ts');
