import type { OverviewRollout } from '../../apis/console.ts';
import type { RolloutCommand, RolloutState } from '../../apis/rollout.ts';
import type { WatchedPolicy } from '../status/policy-versions.ts';

const DOES: Readonly<Record<RolloutCommand, string>> = {
  pause: 'Begin no further step',
  resume: 'Go on; nodes that have failed so far do not count again',
  undo: 'Put the last completed version in force on all nodes',
  promote: 'Put the new version in force on all nodes at once',
};
/** Commands that make sense in a state. */
const COMMANDS: Readonly<Record<RolloutState, readonly RolloutCommand[]>> = {
  Progressing: ['pause', 'undo', 'promote'],
  Paused: ['resume', 'undo', 'promote'],
  Completed: [],
  Undone: ['promote'],
};

/** The rollouts that the policies' statuses tell of, sorted by their first policy. */
export function overviewRollouts(policies: Iterable<WatchedPolicy>): OverviewRollout[] {
  const last = new Map<string, { readonly serial: number; readonly shown: OverviewRollout }>();
  for (const { rollout } of policies) {
    const { decision, ...rest } = rollout ?? {};
    if (decision === undefined || (last.get(decision.key)?.serial ?? -1) >= decision.serial) continue;
    const { key, state, pausedBy = null, policies: members, serial } = decision;
    const [first] = members;
    const commands = COMMANDS[state].map((command) => ({
      does: DOES[command],
      line: `kubectl nodewall rollout ${command} ${first?.name ?? ''}`,
    }));
    const shown: OverviewRollout = {
      key,
      state,
      pausedBy,
      progress: rest.progress ?? '',
      message: rest.message ?? '',
      policies: members.map(({ name, uid, from, to }) => ({ name, uid, from, to })),
      nodes: rest.nodes ?? null,
      updated: rest.updated ?? null,
      confirmed: rest.confirmed ?? null,
      failed: rest.failed ?? [],
      silent: rest.silent ?? [],
      waiting: rest.waiting ?? [],
      commands,
    };
    last.set(key, { serial, shown });
  }
  const nameOf = ({ policies: [first] }: OverviewRollout): string => first?.name ?? '';
  return [...last.values()].map(({ shown }) => shown).sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
}

/** The key of a policy's rollout; null: it has none. */
export function rolloutOf({ rollout }: WatchedPolicy): string | null {
  return rollout?.decision?.key ?? null;
}
