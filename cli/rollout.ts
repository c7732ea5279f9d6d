import { setTimeout as pause } from 'node:timers/promises';
import {
  ROLLOUT_ANNOTATION,
  type RolloutCommand,
  type RolloutProgress,
  type RolloutStatus,
  rolloutProgress,
} from '../apis/rollout.ts';
import type { KubeApi } from '../controller/kubeapi/kube-api.ts';
import { isKubeError } from '../controller/kubeapi/kube-error.ts';
import type { ObjectMetadata } from '../controller/kubeapi/managed-fields.ts';
import { NODEWALL_POLICIES } from '../controller/status/writer.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { itemsAt, recordOnly, withCluster } from './cluster-api.ts';
import { loadConfig } from './load.ts';
import { json, print, table, watched } from './output.ts';

export interface RolloutOptions {
  readonly kubeconfig?: string;
  readonly config?: string;
  readonly output: 'text' | 'json';
}

/** Milliseconds: between two looks, and until a controller must have acted. */
const LOOK_EVERY = 100;
const LIMIT = 10_000;

/** `nodewall rollout status`. */
export async function rolloutStatus(
  policy: string | undefined,
  options: RolloutOptions & { readonly watch: boolean },
): Promise<ExitStatus> {
  return withApi(options, (request) =>
    watched(options.watch, async (show) => {
      const policies = policy === undefined ? await listPolicies(request) : [await one(request, policy)];
      const rollouts = rolloutsOf(policies);
      const [first] = policies;
      if (policy !== undefined && first !== undefined && rollouts.length === 0) throw withoutRollout(first);
      await show(options.output === 'json' ? json(rollouts) : rolloutsText(rollouts));
      return EXIT.done;
    }),
  );
}

/**
 * `nodewall rollout pause`, `resume`, `undo`, `promote`. Exit status 1 if no controller acts on it,
 * or if it has no effect because of the rollout's state.
 */
export async function steerRollout(
  command: RolloutCommand,
  policy: string,
  options: RolloutOptions,
): Promise<ExitStatus> {
  return withApi(options, async (request) => {
    const before = await one(request, policy);
    if (rolloutsOf([before]).length === 0) throw withoutRollout(before, command);
    const value = valueFor(command, before);
    const body = { metadata: { annotations: { [ROLLOUT_ANNOTATION]: value } } };
    await asCommand(policy, () => request({ method: 'PATCH', path: pathOf(policy), body }));
    const until = performance.now() + LIMIT;
    for (;;) {
      const now = await one(request, policy);
      const [shown] = rolloutsOf([now]);
      if (shown !== undefined && actedOn(now) === value) {
        await print(options.output === 'json' ? json([shown]) : rolloutsText([shown]));
        const remark = remarkOn(command, shown);
        if (remark !== null) process.stderr.write(`${remark.text}\n`);
        return remark?.status ?? EXIT.done;
      }
      if (performance.now() > until)
        throw new CommandError(
          EXIT.invalid,
          `no controller has acted on the annotation within ${LIMIT / 1000} s; does one lead, and is the policy valid?`,
        );
      await pause(LOOK_EVERY);
    }
  });
}

function withoutRollout(
  { metadata: { name }, spec }: PolicyWithRollout,
  command?: RolloutCommand,
): CommandError {
  const why =
    spec?.rollout === undefined
      ? `${name} has no rollout: all nodes have its present version`
      : `no controller has decided on the rollout of ${name} yet; does one lead, and is the policy valid?`;
  const more = command === 'undo' ? `. ${otherWay(name)}` : '';
  return new CommandError(EXIT.invalid, `${why}${more}`);
}

/** The way to take in place of `undo`. */
function otherWay(policy: string): string {
  return `No earlier version of it is stored: apply it from where your manifests are, or let it record only:\n  ${recordOnly(policy)}`;
}

/** A remark that somebody who gave the command may not expect; null: it did as it says. */
function remarkOn(
  command: RolloutCommand,
  { policy, state }: RolloutProgress,
): { readonly status: ExitStatus; readonly text: string } | null {
  const isOver = state === 'Completed' || state === 'Undone';
  switch (command) {
    case 'pause': {
      if (!isOver) return null;
      const text = `No rollout is in progress. The next version of ${policy} waits before its first step, until nodewall rollout resume ${policy}.`;
      return { status: EXIT.done, text };
    }
    case 'resume':
      if (state === 'Undone')
        return { status: EXIT.invalid, text: 'It stays undone: edit the policy, or promote the version.' };
      return state === 'Paused'
        ? { status: EXIT.invalid, text: 'It is still paused, or again, for the reason above.' }
        : null;
    case 'undo':
      return state === 'Undone'
        ? null
        : {
            status: EXIT.invalid,
            text: `There is nothing to undo: all nodes have the last completed version of ${policy}. ${otherWay(policy)}`,
          };
    case 'promote':
      return null;
    default:
      return command satisfies never;
  }
}

/** The same annotation again would be no change: words behind the command make it one. */
function valueFor(command: RolloutCommand, policy: PolicyWithRollout): string {
  const present = policy.metadata.annotations?.[ROLLOUT_ANNOTATION];
  const isNew = present !== command && actedOn(policy) !== command;
  return isNew ? command : `${command} ${new Date().toISOString()}`;
}

/** The annotation that a controller acted on last. */
function actedOn({ metadata, status }: PolicyWithRollout): string | undefined {
  return status?.rollout?.decision?.policies.find(({ name }) => name === metadata.name)?.command;
}

/** Calls `run` with the API server of the options. Throws a CommandError. */
export async function withApi(
  { config, kubeconfig }: RolloutOptions,
  run: (request: KubeApi) => Promise<ExitStatus>,
): Promise<ExitStatus> {
  await loadConfig(config);
  return await withCluster(kubeconfig, run);
}

/** All of the cluster. Throws a CommandError. */
export async function listPolicies(request: KubeApi): Promise<readonly PolicyWithRollout[]> {
  return await asCommand(null, () => itemsAt<PolicyWithRollout>(request, NODEWALL_POLICIES));
}

const one = (request: KubeApi, policy: string): Promise<PolicyWithRollout> =>
  asCommand(policy, () => request<PolicyWithRollout>({ method: 'GET', path: pathOf(policy) }));

function pathOf(policy: string): string {
  return `${NODEWALL_POLICIES}/${encodeURIComponent(policy)}`;
}

async function asCommand<T>(policy: string | null, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    const missing =
      policy === null
        ? 'the cluster has no ClusterNetworkPolicies: install the CustomResourceDefinitions of nodewall'
        : `there is no ClusterNetworkPolicy ${policy}`;
    if (isKubeError(error, 'NotFound')) throw new CommandError(EXIT.invalid, missing, { cause: error });
    throw new CommandError(EXIT.refused, (error as Error).message, { cause: error });
  }
}

/** A policy, as far as its rollout is concerned. */
export interface PolicyWithRollout {
  readonly metadata: ObjectMetadata & {
    readonly name: string;
    readonly generation?: number;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec?: { readonly rollout?: object; readonly mode?: string };
  readonly status?: { readonly rollout?: RolloutStatus };
}

/** The rollouts of policies, as they are printed. */
export function rolloutsOf(policies: readonly PolicyWithRollout[]): RolloutProgress[] {
  return rolloutProgress(
    policies.map(({ metadata: { name, generation }, status }) => ({
      name,
      generation,
      rollout: status?.rollout,
    })),
  );
}

function rolloutsText(rollouts: readonly RolloutProgress[]): string {
  if (rollouts.length === 0) return 'No policy has a rollout: all nodes have the present versions.\n';
  const rows = rollouts.map(({ policy, group, progress, nodes, updated, confirmed }) => [
    ...[policy, group ?? '-', progress],
    ...[nodes, updated, confirmed].map((count) => (count === null ? '-' : String(count))),
  ]);
  const details = rollouts.flatMap(({ policy, message, to, generation, failed, silent, waiting }) => [
    `${policy}: ${message}\n`,
    ...(generation === to ? [] : [`  generation ${generation} of the policy is not part of it yet\n`]),
    ...failed.map(({ node, reason }) => `  ${node} failed: ${reason}\n`),
    ...silent.map(({ node, reason }) => `  ${node} is not waited for: ${reason}\n`),
    ...waiting.map((node) => `  ${node} has not confirmed it yet\n`),
  ]);
  return `${table(['policy', 'group', 'rollout', 'nodes', 'updated', 'confirmed'], rows)}\n${details.join('')}`;
}
