import { setTimeout as sleep } from 'node:timers/promises';
import { removeBootFiles } from '../agent/boot/boot-folder.ts';
import { holdRules, type LeftOvers, removeAll } from '../agent/dataplane/dataplane.ts';
import { allLeftOvers } from '../agent/dataplane/dataplanes.ts';
import { agentLock, namespaceHolder } from '../agent/run/agent-lock.ts';
import { releaseInterfaceGroups } from '../agent/run/interface-groups.ts';
import { removeOff, writeOff } from '../agent/run/off-file.ts';
import { rememberNode } from '../agent/run/state-store.ts';
import { withKernel } from '../agent/run/with-kernel.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import type { MachineOptions, Printed } from './command-options.ts';
import { userName } from './flush.ts';
import { loadConfig } from './load.ts';
import { thisHost } from './machine-node.ts';
import { json, print, warn, warnHidden } from './output.ts';

interface OffOptions extends MachineOptions, Printed<'text' | 'json'> {
  readonly reason?: string;
}

type OnOptions = Omit<OffOptions, 'reason' | 'config'> & {
  /** The host's name of now is that of this machine's Node. */
  readonly renamed?: boolean;
};

/** Milliseconds that a running agent has to remove its rules. */
const PATIENCE = 15_000;
const LAST_LOOK = 2_000;
const LOOK = 100;

/**
 * Switches nodewall off on this node until `nodewall on`; returns EXIT.done once no rule is in the
 * kernel, EXIT.refused if rules may be left where this process cannot look. Throws a CommandError
 * if the file `off` cannot be written or rules remain.
 */
export async function off(options: OffOptions): Promise<ExitStatus> {
  const { stateDir, reason = '' } = options;
  const config = await loadConfig(options.config);
  try {
    await writeOff(stateDir, { reason, since: new Date().toISOString(), by: userName() });
  } catch (error) {
    throw new CommandError(
      EXIT.refused,
      `--state-dir: ${(error as Error).message}; nothing has changed. Free space on the disk or make it writable; or stop the agent, then run nodewall cleanup`,
      { cause: error },
    );
  }
  const agent = await agentLock(stateDir).holder();
  const { removed, isGone, hidden } = await withKernel(async (kernel) => {
    const all = await allLeftOvers(kernel);
    if (agent !== null && (await untilGone(all, PATIENCE))) return { removed: [], hidden: [], isGone: true };
    // Removes the rules without an agent, or in place of one that hangs. An agent that starts
    // meanwhile finds the file `off` and removes them too.
    const removal = await removeAll(all);
    const { interfaces } = await releaseInterfaceGroups(stateDir, config, { warn });
    const groups = interfaces.map((name) => `group of interface ${name}`);
    return { ...removal, removed: [...removal.removed, ...groups], isGone: await untilGone(all, LAST_LOOK) };
  });
  warnHidden(hidden);
  if (!isGone) {
    throw new CommandError(
      EXIT.refused,
      "nodewall is off, but the kernel still has rules of it; check the agent's log, or stop the agent and run nodewall cleanup",
    );
  }
  const who =
    agent === null
      ? 'No agent runs here; an agent that starts enforces nothing'
      : `The agent (process ${agent}) has removed its rules and enforces nothing`;
  const text = `${removed.map((what) => `Removed ${what}.\n`).join('')}nodewall is off on this node: no rule of it is in the kernel. ${who} until: nodewall on\n`;
  await print(options.output === 'json' ? json({ off: true, reason, agent, removed }) : text);
  return hidden.length === 0 ? EXIT.done : EXIT.refused;
}

/**
 * Ends `nodewall off`, and with `--renamed` also the former name of this machine's Node. Throws a
 * CommandError if a file in the state directory cannot be removed or written.
 */
export async function on(options: OnOptions): Promise<ExitStatus> {
  const { stateDir } = options;
  const renamed = options.renamed === true ? await acceptName(stateDir) : null;
  let wasOff: boolean;
  try {
    wasOff = removeOff(stateDir);
  } catch (error) {
    throw new CommandError(EXIT.refused, `--state-dir: ${(error as Error).message}; nodewall stays off`, {
      cause: error,
    });
  }
  const agent = await agentLock(stateDir).holder();
  const what = wasOff ? 'nodewall is on again on this node.' : 'nodewall was not off on this node.';
  const next =
    agent === null
      ? 'No agent runs here; an agent that starts enforces its policies.'
      : `The agent (process ${agent}) enforces its policies within seconds.`;
  const name =
    renamed === null
      ? ''
      : `This machine is Node ${renamed} now: the rules of policies that do not select it go.\n`;
  const found = { off: false, wasOff, agent, ...(renamed === null ? {} : { renamed }) };
  await print(options.output === 'json' ? json(found) : `${name}${what} ${next}\n`);
  return EXIT.done;
}

async function acceptName(stateDir: string): Promise<string> {
  const { name } = thisHost();
  try {
    await rememberNode(stateDir, { node: name, host: name });
    return name;
  } catch (error) {
    throw new CommandError(EXIT.refused, `--state-dir: ${(error as Error).message}; nothing has changed`, {
      cause: error,
    });
  }
}

/** Polls the kernel until no rules are left; false after `patience` milliseconds. */
async function untilGone(all: readonly LeftOvers[], patience: number): Promise<boolean> {
  const end = performance.now() + patience;
  for (;;) {
    // Places that this process may not inspect are reported where their rules are to be removed.
    if (!(await holdRules({ all, others: all }, '', { warn() {} }))) return true;
    if (performance.now() >= end) return false;
    await sleep(LOOK);
  }
}

interface CleanupOptions extends MachineOptions, Printed<'text' | 'json'> {}

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
