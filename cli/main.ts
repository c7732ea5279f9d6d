import { run } from './program.ts';

// The parser of yaml 2.9 asks for a variable at each token, and Node.js then asks the C library: of
// reading 1,000 policies that was an eighth.
process.env = { ...process.env };
// The reader of the output may close it: `nodewall compile … | head -1`. Other errors (a full disk)
// are reported.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') process.stderr.write(`nodewall: cannot write the result: ${error.message}\n`);
  process.exit(error.code === 'EPIPE' ? 0 : 3);
});
// A closed standard error must not end the agent.
process.stderr.on('error', () => {});
process.exitCode = await run(process.argv);
