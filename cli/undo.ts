import { savedGuardMemory } from '../agent/guard/guard-file.ts';
import { holdText } from '../agent/guard/holds.ts';
import { agentLock } from '../agent/run/agent-lock.ts';
import { readOff } from '../agent/run/off-file.ts';
import type { RolloutState } from '../apis/rollout.ts';
import { managerChanges } from '../controller/kubeapi/managed-fields.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { compareText } from '../lib/sharing/lists.ts';
import { hasKubeconfig, recordOnly } from './cluster-api.ts';
import { loadConfig } from './load.ts';
import { json, print, table } from './output.ts';
import { fieldText, oneLine } from './record-text.ts';
import {
  listPolicies,
  type PolicyWithRollout,
  type RolloutOptions,
  rolloutsOf,
  steerRollout,
  withApi,
} from './rollout.ts';

interface UndoOptions extends RolloutOptions {
  /** The rollout of this group. */
  readonly group?: string;
  readonly machine: boolean;
  readonly stateDir: string;
}

/**
 * `nodewall undo`: of a policy or a group as `nodewall rollout undo`; without one prints what can
 * be undone, and how. Where there is no kubeconfig, or with `--machine`, of this machine.
 *
 * @param program as its users call it
 */
export async function undoCommand(
  policy: string | undefined,
  options: UndoOptions,
  program: string,
): Promise<ExitStatus> {
  const { group, output } = options;
  if (policy !== undefined && group !== undefined)
    throw new CommandError(EXIT.usage, 'give either a policy or --group, not both');
  if (options.machine || !hasKubeconfig(options.kubeconfig)) {
    if (group !== undefined)
      throw new CommandError(EXIT.usage, '--group: rollouts are of clusters, not of a machine');
    return await undoOnMachine(policy, options);
  }
  if (policy !== undefined) return await steerRollout('undo', policy, options);
  if (group !== undefined) return await steerRollout('undo', await memberOf(group, options), options);
  return await withApi(options, async (request) => {
    const ways = waysBack(await listPolicies(request), program);
    await print(output === 'json' ? json(ways) : waysBackText(ways, program));
    return EXIT.done;
  });
}

/** A policy of the group: a command for one is for all. */
async function memberOf(group: string, options: UndoOptions): Promise<string> {
  let found: string | undefined;
  await withApi(options, async (request) => {
    const rollouts = rolloutsOf(await listPolicies(request));
    found = rollouts.find((one) => one.group === group)?.policy;
    return EXIT.done;
  });
  if (found !== undefined) return found;
  throw new CommandError(
    EXIT.invalid,
    `--group: no rollout has the group ${JSON.stringify(group)}; nodewall rollout status shows all`,
  );
}

/** The way back from the present version of a policy. */
interface WayBack {
  readonly policy: string;
  readonly group: string | null;
  /** When its spec was last changed (ISO 8601), and by which program; null: nobody knows. */
  readonly changed: string | null;
  readonly by: string | null;
  /** The state of its rollout; null: it has none. */
  readonly rollout: RolloutState | null;
  /** For people: how far the rollout is. */
  readonly progress: string;
  /**
   * undo: its last completed version comes back; record-only: there is no earlier version, it can
   * stop to enforce; promote: it was undone; none: it enforces nothing.
   */
  readonly way: 'undo' | 'record-only' | 'promote' | 'none';
  /** With `undo`: the generation that comes back; 0: none, the policy was new. */
  readonly generation: number | null;
  /** The line for a shell; null: none. */
  readonly command: string | null;
}

/** Policies without an earlier version that are named, of those changed last. */
const MOST_OTHERS = 10;

/**
 * Those that can be undone first, then by the time of the change, newest first.
 *
 * @param program as its users call it
 */
export function waysBack(policies: readonly PolicyWithRollout[], program: string): WayBack[] {
  return policies
    .map((policy) => wayBack(policy, program))
    .sort(
      (a, b) =>
        Number(b.way === 'undo') - Number(a.way === 'undo') ||
        compareText(b.changed ?? '', a.changed ?? '') ||
        compareText(a.policy, b.policy),
    );
}

function wayBack(policy: PolicyWithRollout, program: string): WayBack {
  const { name } = policy.metadata;
  const quoted = fieldText(name);
  const [shown] = rolloutsOf([policy]);
  const [change] = managerChanges(policy.metadata).filter(({ fields }) =>
    fields.some((field) => field.startsWith('spec.')),
  );
  const found = {
    policy: name,
    group: shown?.group ?? null,
    changed: change?.time ?? null,
    by: change?.manager ?? null,
    rollout: shown?.state ?? null,
    progress: shown?.progress ?? '',
  };
  if (shown?.state === 'Progressing' || shown?.state === 'Paused')
    return { ...found, way: 'undo', generation: shown.from, command: `${program} undo ${quoted}` };
  if (shown?.state === 'Undone')
    return { ...found, way: 'promote', generation: null, command: `${program} rollout promote ${quoted}` };
  if (policy.spec?.mode === 'Audit') return { ...found, way: 'none', generation: null, command: null };
  return { ...found, way: 'record-only', generation: null, command: recordOnly(quoted) };
}

/** The ways back that there are, and the lines for a shell. */
export function waysBackText(ways: readonly WayBack[], program: string): string {
  if (ways.length === 0) return 'Nothing to undo: the cluster has no ClusterNetworkPolicy.\n';
  const undoable = ways.filter(({ way }) => way === 'undo');
  const others = ways.filter(({ way }) => way !== 'undo');
  const rows = [...undoable, ...others.slice(0, MOST_OTHERS)].map((one) => [
    fieldText(one.policy),
    one.group === null ? '-' : fieldText(one.group),
    one.changed === null ? '-' : fieldText(one.changed),
    one.by === null ? '-' : fieldText(one.by),
    one.rollout === null ? '-' : fieldText(one.rollout),
    wayText(one),
  ]);
  const left = others.length - MOST_OTHERS;
  const more = left > 0 ? `${left} more: -o json\n` : '';
  const alone = others.some(({ way }) => way === 'record-only')
    ? `Where no earlier version is stored, apply it from where your manifests are, or let the policy record only:\n  ${recordOnly('POLICY')}\n`
    : '';
  const header = ['policy', 'group', 'changed', 'by program', 'rollout', 'way back'];
  return `${table(header, rows)}${more}\n${alone}${REST(program)}`;
}

function wayText({ way, command, generation }: WayBack): string {
  switch (way) {
    case 'undo':
      return `${command} (${generation === 0 ? 'the policy is new: no rules of it' : `generation ${generation}`})`;
    case 'promote':
      return `is undone; ${command} ends that`;
    case 'none':
      return 'records only, enforces nothing';
    case 'record-only':
      return 'no earlier version is stored';
    default:
      return way satisfies never;
  }
}

const REST = (program: string): string =>
  `What else was changed: ${program} changes. All rules of one node off: nodewall off, on the node.\n`;

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
async function undoOnMachine(
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
    const { readSavedManifests } = await import('./saved-manifests.ts');
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
