import { removeTable } from '../agent/apply/remove.ts';
import { agentLock } from './agentlock.ts';
import { CommandError, EXIT, type ExitStatus } from './exit.ts';
import { withKernel } from './kernel.ts';
import { loadConfig } from './load.ts';
import { json, print } from './output.ts';

interface CleanupOptions {
  readonly config?: string;
  readonly stateDir: string;
  readonly output: 'text' | 'json';
}

export async function cleanup(options: CleanupOptions): Promise<ExitStatus> {
  await loadConfig(options.config);
  const running = await agentLock(options.stateDir).holder();
  if (running !== null) {
    throw new CommandError(
      EXIT.refused,
      `an agent runs here (process ${running}) and would put its rules back; stop it first`,
    );
  }
  const removed = await withKernel(removeTable);
  const text = removed ? 'Removed table inet nodewall.\n' : 'Nothing of nodewall is in the kernel.\n';
  await print(options.output === 'json' ? json({ removed: removed ? ['table inet nodewall'] : [] }) : text);
  return EXIT.done;
}
