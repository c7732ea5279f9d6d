import { removeBootFiles } from '../agent/boot/boot-folder.ts';
import { removeAll } from '../agent/dataplane/dataplane.ts';
import { allLeftOvers } from '../agent/dataplane/dataplanes.ts';
import { agentLock, namespaceHolder } from '../agent/run/agent-lock.ts';
import { releaseInterfaceGroups } from '../agent/run/interface-groups.ts';
import { withKernel } from '../agent/run/with-kernel.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { loadConfig } from './load.ts';
import { json, print, warn, warnHidden } from './output.ts';

interface CleanupOptions {
  readonly config?: string;
  readonly stateDir: string;
  readonly output: 'text' | 'json';
}

export async function cleanup(options: CleanupOptions): Promise<ExitStatus> {
  const config = await loadConfig(options.config);
  const running = await agentLock(options.stateDir).holder();
  const holder = running === null ? await namespaceHolder() : `process ${running}`;
  if (holder !== null) {
    throw new CommandError(
      EXIT.refused,
      `an agent runs here (${holder}) and would add its rules again; stop it first, or run nodewall off`,
    );
  }
  const { interfaces } = await releaseInterfaceGroups(options.stateDir, config, { warn });
  const { removed: rules, hidden } = await withKernel(async (kernel) =>
    removeAll(await allLeftOvers(kernel)),
  );
  await removeBootFiles(options.stateDir);
  const removed = [...rules, ...interfaces.map((name) => `group of interface ${name}`)];
  const nothing = hidden.length === 0 ? 'Nothing of nodewall is in the kernel.\n' : '';
  const text = removed.length === 0 ? nothing : removed.map(sentence).join('');
  await print(options.output === 'json' ? json({ removed }) : text);
  // Rules that may be left where this process cannot look must not be taken for removed.
  warnHidden(hidden);
  if (hidden.length > 0) return EXIT.refused;
  return removed.some(isKept) ? EXIT.invalid : EXIT.done;
}

function isKept(what: string): boolean {
  return what.includes(', not removed: ');
}

/** Chains and sets that third-party rules refer to cannot be removed; they are reported too. */
function sentence(what: string): string {
  return isKept(what) ? `${what}.\n` : `Removed ${what}.\n`;
}
