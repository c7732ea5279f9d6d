import { removeAll } from '../agent/dataplane/dataplane.ts';
import { allRemains } from '../agent/dataplane/open-dataplanes.ts';
import { agentLock } from '../agent/run/agent-lock.ts';
import { releaseInterfaceGroups } from '../agent/run/interface-groups.ts';
import { withKernel } from '../agent/run/with-kernel.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { loadConfig } from './load.ts';
import { json, print } from './output.ts';

interface CleanupOptions {
  readonly config?: string;
  readonly stateDir: string;
  readonly output: 'text' | 'json';
}

export async function cleanup(options: CleanupOptions): Promise<ExitStatus> {
  const config = await loadConfig(options.config);
  const running = await agentLock(options.stateDir).holder();
  if (running !== null) {
    throw new CommandError(
      EXIT.refused,
      `an agent runs here (process ${running}) and would put its rules back; stop it first, or have it enforce nothing: nodewall off`,
    );
  }
  const warn = (message: string, fields: object = {}): void =>
    void process.stderr.write(`${[message, ...Object.values(fields)].join(': ')}\n`);
  const { interfaces } = await releaseInterfaceGroups(options.stateDir, config, { warn });
  const { removed: rules, hidden } = await withKernel(async (kernel) => removeAll(await allRemains(kernel)));
  const removed = [...rules, ...interfaces.map((name) => `group of interface ${name}`)];
  const nothing = hidden.length === 0 ? 'Nothing of nodewall is in the kernel.\n' : '';
  const text = removed.length === 0 ? nothing : removed.map(sentence).join('');
  await print(options.output === 'json' ? json({ removed }) : text);
  // Rules that may be left where this process cannot look must not be taken for removed.
  for (const { from, error } of hidden)
    warn('what nodewall may have left there cannot be looked for', {
      where: from.name,
      error: error.message,
    });
  return hidden.length === 0 ? EXIT.done : EXIT.refused;
}

/** Chains and sets that third-party rules refer to cannot be removed; they are reported too. */
function sentence(what: string): string {
  return what.includes(', not removed: ') ? `${what}.\n` : `Removed ${what}.\n`;
}
