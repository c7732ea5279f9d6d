import { setTimeout as pause } from 'node:timers/promises';
import { ROLLOUT_ANNOTATION, type RolloutCommand, type RolloutStatus } from '../apis/rollout.ts';
import { codeOf, type KubeApi } from '../controller/kubeapi/kube-api.ts';
import { NODEWALL_POLICIES } from '../controller/status/policy-path.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { openKubeConfig } from './cluster-objects.ts';
import { loadConfig } from './load.ts';
import { json, print, table } from './output.ts';

export interface RolloutOptions {
  readonly kubeconfig?: string;
  readonly config?: string;
  readonly output: 'text' | 'json';
}

interface Policy {
  readonly metadata: { readonly name: string; readonly annotations?: Readonly<Record<string, string>> };
  readonly status?: { readonly rollout?: RolloutStatus };
}

/** Milliseconds: between two looks, and until a controller must have acted. */
const LOOK_EVERY = 100;
const LIMIT = 10_000;

/** `nodewall rollout status`. */
export async function rolloutStatus(
  policy: string | undefined,
  options: RolloutOptions,
): Promise<ExitStatus> {
  return withApi(options, async (request) => {
    const policies = policy === undefined ? await list(request) : [await one(request, policy)];
    const rollouts = policies.flatMap((each) => toShown(each) ?? []);
    if (policy !== undefined && rollouts.length === 0)
      throw new CommandError(EXIT.invalid, `${policy} has no rollout: all nodes have its present version`);
    await print(options.output === 'json' ? json(rollouts) : statusText(rollouts));
    return EXIT.done;
  });
}

/**
 * `nodewall rollout pause`, `resume`, `undo`, `promote`. Exit status 1 if no controller acts on it.
 */
export async function steerRollout(
  command: RolloutCommand,
  policy: string,
  options: RolloutOptions,
): Promise<ExitStatus> {
  return withApi(options, async (request) => {
    const before = await one(request, policy);
    if (toShown(before) === null)
      throw new CommandError(EXIT.invalid, `${policy} has no rollout: all nodes have its present version`);
    const value = valueFor(command, before);
    const body = { metadata: { annotations: { [ROLLOUT_ANNOTATION]: value } } };
    await asCommand(policy, () => request({ method: 'PATCH', path: pathOf(policy), body }));
    const until = performance.now() + LIMIT;
    for (;;) {
      const now = await one(request, policy);
      const shown = toShown(now);
      if (shown !== null && actedOn(now) === value) {
        await print(options.output === 'json' ? json([shown]) : statusText([shown]));
        return EXIT.done;
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

async function withApi(
  { config, kubeconfig }: RolloutOptions,
  run: (request: KubeApi) => Promise<ExitStatus>,
): Promise<ExitStatus> {
  await loadConfig(config);
  const { kubeApi } = await import('../controller/kubeapi/kube-api.ts');
  const client = kubeApi(await openKubeConfig(kubeconfig));
  try {
    return await run(client.request);
  } finally {
    client.close();
  }
}

async function list(request: KubeApi): Promise<readonly Policy[]> {
  const { items = [] } = await asCommand(null, () =>
    request<{ readonly items?: readonly Policy[] }>({ method: 'GET', path: NODEWALL_POLICIES }),
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
    if (Number(codeOf(error)) === 404) throw new CommandError(EXIT.invalid, missing, { cause: error });
    throw new CommandError(EXIT.refused, (error as Error).message, { cause: error });
  }
}

type Shown = NonNullable<ReturnType<typeof toShown>>;

/** Null: the policy has no rollout. */
function toShown({ metadata: { name }, status }: Policy) {
  const { decision, ...rollout } = status?.rollout ?? {};
  const own = decision?.policies.find((each) => each.name === name);
  if (decision === undefined || own === undefined) return null;
  return {
    policy: name,
    group: decision.key.startsWith('group ') ? decision.key.slice('group '.length) : null,
    state: decision.state,
    pausedBy: decision.pausedBy ?? null,
    step: decision.step,
    progress: rollout.progress ?? '',
    message: rollout.message ?? '',
    from: own.from,
    to: own.to,
    nodes: rollout.nodes ?? null,
    updated: rollout.updated ?? null,
    confirmed: rollout.confirmed ?? null,
    failed: rollout.failed ?? [],
    silent: rollout.silent ?? [],
  };
}

function statusText(rollouts: readonly Shown[]): string {
  if (rollouts.length === 0) return 'No policy has a rollout: all nodes have the present versions.\n';
  const rows = rollouts.map(({ policy, group, progress, nodes, updated, confirmed }) => [
    ...[policy, group ?? '-', progress],
    ...[nodes, updated, confirmed].map((count) => (count === null ? '-' : String(count))),
  ]);
  const details = rollouts.flatMap(({ policy, message, failed, silent }) => [
    `${policy}: ${message}\n`,
    ...failed.map(({ node, reason }) => `  ${node} failed: ${reason}\n`),
    ...silent.map((node) => `  ${node} does not report\n`),
  ]);
  return `${table(['policy', 'group', 'rollout', 'nodes', 'updated', 'confirmed'], rows)}\n${details.join('')}`;
}
