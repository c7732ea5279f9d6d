import { setTimeout as pause } from 'node:timers/promises';
import { ROLLOUT_ANNOTATION, type RolloutCommand } from '../apis/rollout.ts';
import type { KubeApi } from '../controller/kubeapi/kube-api.ts';
import { isKubeError } from '../controller/kubeapi/kube-error.ts';
import { NODEWALL_POLICIES } from '../controller/status/writer.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { withCluster } from './cluster-api.ts';
import { loadConfig } from './load.ts';
import { json, print } from './output.ts';
import {
  type PolicyWithRollout,
  recordOnly,
  rolloutsText,
  type ShownRollout,
  toShown,
} from './rollout-text.ts';
import type { ChangedPolicy } from './undo-text.ts';
import { watched } from './watched.ts';

export interface RolloutOptions {
  readonly kubeconfig?: string;
  readonly config?: string;
  readonly output: 'text' | 'json';
}

type Policy = PolicyWithRollout;

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
      const rollouts = policies.flatMap((each) => toShown(each) ?? []);
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
    if (toShown(before) === null) throw withoutRollout(before, command);
    const value = valueFor(command, before);
    const body = { metadata: { annotations: { [ROLLOUT_ANNOTATION]: value } } };
    await asCommand(policy, () => request({ method: 'PATCH', path: pathOf(policy), body }));
    const until = performance.now() + LIMIT;
    for (;;) {
      const now = await one(request, policy);
      const shown = toShown(now);
      if (shown !== null && actedOn(now) === value) {
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

function withoutRollout({ metadata: { name }, spec }: Policy, command?: RolloutCommand): CommandError {
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
  { policy, state }: ShownRollout,
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
function valueFor(command: RolloutCommand, policy: Policy): string {
  const present = policy.metadata.annotations?.[ROLLOUT_ANNOTATION];
  const isNew = present !== command && actedOn(policy) !== command;
  return isNew ? command : `${command} ${new Date().toISOString()}`;
}

/** The annotation that a controller acted on last. */
function actedOn({ metadata, status }: Policy): string | undefined {
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
export async function listPolicies(request: KubeApi): Promise<readonly ChangedPolicy[]> {
  const { items = [] } = await asCommand(null, () =>
    request<{ readonly items?: readonly ChangedPolicy[] }>({ method: 'GET', path: NODEWALL_POLICIES }),
  );
  return items;
}

const one = (request: KubeApi, policy: string): Promise<Policy> =>
  asCommand(policy, () => request<Policy>({ method: 'GET', path: pathOf(policy) }));

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
