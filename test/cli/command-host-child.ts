/** The process of a CommandHost: commands come as messages, and their ends go back. */

import { runNodewall } from '../../cli/program.ts';
import type { Ended } from './command.ts';
import type { HostedCommand } from './command-host.ts';

/** How long a command that has returned may take to close what it opened, in milliseconds. */
const TO_CLOSE = 5_000;
const OUTPUTS = ['stdout', 'stderr'] as const;

/** Runs a command, and returns its status and output as a process of its own would have them. */
async function ended(args: readonly string[]): Promise<Ended> {
  const output = { stdout: '', stderr: '' };
  const restore = OUTPUTS.map((name) => {
    const stream = process[name];
    const { write } = stream;
    stream.write = (text: string | Uint8Array, ...rest: readonly unknown[]) => {
      output[name] += typeof text === 'string' ? text : Buffer.from(text).toString();
      const taken = rest.find((argument) => typeof argument === 'function');
      if (taken !== undefined) process.nextTick(taken);
      return true;
    };
    return () => {
      stream.write = write;
    };
  });
  const before = process.getActiveResourcesInfo();
  let status: number | null = 1;
  try {
    status = await runNodewall([process.execPath, 'nodewall', ...args]);
    const open = await openSince(before);
    if (open.length > 0) {
      status = null;
      output.stderr += `the command returned, and left open: ${open.join(', ')}\n`;
    }
  } catch (error) {
    output.stderr += `${error instanceof Error ? error.stack : error}\n`;
  }
  for (const back of restore) back();
  return { status, ...output };
}

/** Resources that would keep the command's process from its end: none, or those open too long. */
async function openSince(before: readonly string[]): Promise<string[]> {
  const until = performance.now() + TO_CLOSE;
  for (;;) {
    await new Promise(setImmediate);
    const open = process.getActiveResourcesInfo().filter((name) => name !== 'Immediate');
    for (const name of before) {
      const index = open.indexOf(name);
      if (index >= 0) open.splice(index, 1);
    }
    if (open.length === 0 || performance.now() > until) return open;
  }
}

// As in cli/main.ts.
process.env = { ...process.env };
// Each command makes a log, and each log listens to the stream that it writes to.
process.stderr.setMaxListeners(0);
let last: Promise<unknown> = Promise.resolve();
process.on('message', ({ id, args }: HostedCommand) => {
  last = last.then(async () => process.send?.({ id, ended: await ended(args) }));
});
process.on('disconnect', () => process.exit());
