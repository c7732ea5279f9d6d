/**
 * The reader of the output may close it: `nodewall compile … | head -1`. Other errors (a full disk)
 * are reported. A closed standard error must not end the agent.
 */
export function watchOutput(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') process.stderr.write(`nodewall: cannot write the result: ${error.message}\n`);
    process.exit(error.code === 'EPIPE' ? 0 : 3);
  });
  process.stderr.on('error', () => {});
}
