/** A thousand sessions in each case. */
process.env.NODEWALL_SESSIONS ??= '1000';
await import('./open-sessions.test.ts');
