import assert from 'node:assert/strict';
import type { RolloutDecision, RolloutState } from '../../apis/rollout.ts';
import type { WatchedPolicy } from '../status/policy-versions.ts';
import { overviewRollouts } from './cluster-overview.ts';

function watched(name: string, decision: Partial<RolloutDecision>, message = ''): WatchedPolicy {
  const policies = [{ name, uid: name, from: 1, to: 2, command: 'pause <script>' }];
  return {
    apiGroup: 'nodewall.io',
    name,
    uid: name,
    generation: 2,
    since: 0,
    status: null,
    command: null,
    resourceVersion: 1,
    rollout: {
      message,
      progress: 'Step 1 of 2',
      nodes: 4,
      updated: 1,
      decision: {
        serial: 1,
        key: name,
        state: 'Progressing',
        step: 1,
        policies,
        through: '',
        firsts: [],
        ...decision,
      },
    },
  };
}

describe('rollouts in the overview', () => {
  it('are one of each key, by the last decision', () => {
    const found = overviewRollouts([
      watched('b', { key: 'group g', serial: 1 }, 'old'),
      watched('a', { key: 'group g', serial: 2, state: 'Paused', pausedBy: 'Failures' }, 'new'),
      watched('0', { state: 'Completed' }),
      { ...watched('none', {}), rollout: null },
    ]);
    assert.deepEqual(
      found.map(({ key, state, pausedBy, message }) => [key, state, pausedBy, message]),
      [
        ['0', 'Completed', null, ''],
        ['group g', 'Paused', 'Failures', 'new'],
      ],
    );
    assert.deepEqual(found[1]?.policies, [{ name: 'a', uid: 'a', from: 1, to: 2 }]);
    assert.deepEqual([found[1]?.nodes, found[1]?.updated, found[1]?.confirmed], [4, 1, null]);
  });

  it('have lines for what can be done in their state', () => {
    const cases: Readonly<Record<RolloutState, readonly string[]>> = {
      Progressing: ['pause', 'undo', 'promote'],
      Paused: ['resume', 'undo', 'promote'],
      Completed: [],
      Undone: ['promote'],
    };
    for (const [state, commands] of Object.entries(cases)) {
      const [found] = overviewRollouts([watched('p', { state: state as RolloutState })]);
      const lines = commands.map((command) => `kubectl nodewall rollout ${command} p`);
      assert.deepEqual(
        found?.commands.map(({ line }) => line),
        lines,
        state,
      );
    }
  });
});
