import { run } from './program.ts';

// Whoever reads the output may stop reading: `nodewall compile … | head -1`. Anything else (a full
// disk) is said.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') process.stderr.write(`nodewall: cannot write the result: ${error.message}\n`);
  process.exit(error.code === 'EPIPE' ? 0 : 3);
});
// A log that nobody takes any more must not end the agent.
process.stderr.on('error', () => {});
process.exitCode = await run(process.argv);
