import type { RolloutStatus } from '../apis/rollout.ts';
import { table } from './output.ts';

/** A policy, as far as its rollout is concerned. */
export interface PolicyWithRollout {
  readonly metadata: {
    readonly name: string;
    readonly generation?: number;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec?: { readonly rollout?: object };
  readonly status?: { readonly rollout?: RolloutStatus };
}

export type ShownRollout = NonNullable<ReturnType<typeof toShown>>;

/** The rollout of a policy, as it is printed; null: there is none, or none is decided on yet. */
export function toShown({ metadata: { name, generation }, status }: PolicyWithRollout) {
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
    generation: generation ?? own.to,
    nodes: rollout.nodes ?? null,
    updated: rollout.updated ?? null,
    confirmed: rollout.confirmed ?? null,
    failed: rollout.failed ?? [],
    silent: rollout.silent ?? [],
    waiting: rollout.waiting ?? [],
  };
}

export function rolloutsText(rollouts: readonly ShownRollout[]): string {
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

/** The line for a shell by which a policy records what it would decide, and enforces nothing. */
export function recordOnly(policy: string): string {
  return `kubectl patch clusternetworkpolicy ${policy} --type merge -p '{"spec":{"mode":"Audit"}}'`;
}
