import { savedGuardMemory } from '../agent/guard/guard-file.ts';
import { holdText } from '../agent/guard/holds.ts';
import { agentLock } from '../agent/run/agent-lock.ts';
import { readOff } from '../agent/run/off-file.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { loadConfig } from './load.ts';
import { json, print } from './output.ts';
import { fieldText } from './record-text.ts';
import { readSavedManifests } from './saved-manifests.ts';
import { oneLine } from './status-text.ts';

interface OfMachine {
  readonly stateDir: string;
  readonly config?: string;
  readonly output: 'text' | 'json';
}

/** The ways back on one machine. */
interface MachineWaysBack {
  readonly isRunning: boolean;
  readonly isOff: boolean;
  /** Files and directories that the agent reads; null: it reads none, but follows a controller. */
  readonly manifests: readonly string[] | null;
  /** Policies (API group/name) whose change is in force and not confirmed yet. */
  readonly tried: readonly string[];
  /** Those that were rolled back. */
  readonly held: readonly { readonly policy: string; readonly since: string; readonly reason: string }[];
}

/**
 * `nodewall undo` where there is no cluster: prints the ways back on this machine. Earlier versions
 * of manifests are not kept, so a policy is refused with the way that it has.
 */
export async function undoOnMachine(
  policy: string | undefined,
  { stateDir, config, output }: OfMachine,
): Promise<ExitStatus> {
  await loadConfig(config);
  const ways = await waysBackOf(stateDir);
  if (policy !== undefined)
    throw new CommandError(
      EXIT.invalid,
      `${fieldText(policy)}: earlier versions are not kept on this machine; for a cluster give --kubeconfig\n${textOf(ways)}`.trimEnd(),
    );
  await print(output === 'json' ? json(ways) : textOf(ways));
  return EXIT.done;
}

async function waysBackOf(stateDir: string): Promise<MachineWaysBack> {
  try {
    const memory = await savedGuardMemory(stateDir);
    const saved = await readSavedManifests(stateDir);
    const isRunning = (await agentLock(stateDir).holder()) !== null;
    if (memory === null && saved === null && !isRunning)
      throw new CommandError(
        EXIT.invalid,
        `no agent has run here with the state directory ${stateDir}: give its --state-dir, or for a cluster --kubeconfig`,
      );
    const holds = (memory?.holds ?? []).filter(({ isBrief }) => !isBrief);
    return {
      isRunning,
      isOff: readOff(stateDir) !== null,
      manifests: saved?.paths ?? null,
      tried: (memory?.trial?.changes ?? []).map(({ key }) => key),
      held: holds.map(({ key, since, why }) => ({ policy: key, since, reason: holdText(why) })),
    };
  } catch (error) {
    if (error instanceof CommandError) throw error;
    const { cause } = error as Error;
    const needsRoot = ['EACCES', 'EPERM'].includes((cause as NodeJS.ErrnoException | undefined)?.code ?? '');
    const message = `${(error as Error).message}${needsRoot ? ': this needs root' : ''}`;
    throw new CommandError(EXIT.refused, message, { cause: error });
  }
}

function textOf({ isRunning, isOff, manifests, tried, held }: MachineWaysBack): string {
  const lines = [
    ...(isOff ? ['nodewall is off on this machine: no rule of it is in force, until nodewall on.'] : []),
    ...tried.map(
      (key) =>
        `${fieldText(key)}: its change is tried; it takes itself back, unless its probes or nodewall confirm confirm it.`,
    ),
    ...held.map(
      ({ policy, since, reason }) =>
        `${fieldText(policy)}: was taken back at ${fieldText(since)} (${oneLine(reason)}), until it is edited; nodewall retry applies it again.`,
    ),
    ...(tried.length + held.length === 0 ? ['No change is tried or taken back on this machine.'] : []),
    manifests === null
      ? 'The agent follows a controller: undo in the cluster, with --kubeconfig.'
      : `Go back: restore ${manifests.map(fieldText).join(', ')}; ${isRunning ? 'the agent applies it at once' : 'the agent, which does not run, applies it when it starts'}.`,
    ...(isOff ? [] : ['All rules off, at once: nodewall off.']),
  ];
  return lines.map((line) => `${line}\n`).join('');
}
