/** Ten outages of each kind, of which controllers.test.ts has two. */
process.env.NODEWALL_OUTAGES ??= '10';
await import('./controllers/webhook-outages.test.ts');
