import { run } from '../../cli/program.ts';

/** Runs the command lines of nodewall that its parent (warm.ts) sends, one after the other. */

// As in cli/main.ts.
process.env = { ...process.env };
// Each command line makes a log, and each log listens to the stream that it writes to.
process.stderr.setMaxListeners(0);
process.on('message', (args: readonly string[]) => {
  run([process.execPath, 'nodewall', ...args]).then(
    (status) => {
      process.stderr.write('\0\n');
      process.stdout.write(`\0${status}\n`);
    },
    (error: unknown) => {
      process.stderr.write(`${error instanceof Error ? error.stack : error}\n`);
      process.exit(1);
    },
  );
});
process.once('disconnect', () => process.exit());
