/** The story of faulty connections, for ten minutes. */
process.env.NODEWALL_STORY_SECONDS ??= '600';
await import('./story-faults.test.ts');
