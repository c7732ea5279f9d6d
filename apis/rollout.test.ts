import assert from 'node:assert/strict';
import { type RolloutDecision, rolloutProgress } from './rollout.ts';

function rolledOut(name: string, decision: Partial<RolloutDecision>, message = '') {
  const policies = ['a', 'b'].map((one) => ({ name: one, uid: one, from: 1, to: 2, command: 'pause' }));
  const own = {
    serial: 1,
    key: name,
    state: 'Progressing',
    step: 1,
    policies,
    through: '',
    firsts: [],
  } as const;
  const rollout = {
    message,
    progress: 'Step 1 of 2',
    nodes: 4,
    updated: 1,
    decision: { ...own, ...decision },
  };
  return { name, generation: 3, rollout };
}

describe('rollouts as they are printed', () => {
  it('have one decision for all policies of a group, the last one', () => {
    const members = [
      rolledOut('b', { key: 'group g', serial: 1 }, 'old'),
      rolledOut('a', { key: 'group g', serial: 2, state: 'Paused', pausedBy: 'Failures' }, 'new'),
    ];
    for (const policies of [members, members.toReversed()])
      assert.deepEqual(
        rolloutProgress(policies).map(({ policy, group, state, pausedBy, message }) =>
          [policy, group, state, pausedBy, message].join(),
        ),
        policies.map(({ name }) => `${name},g,Paused,Failures,new`),
      );
    const [left] = rolloutProgress([...members, rolledOut('gone', { key: 'group g', serial: 0 })]).slice(2);
    assert.equal(left, undefined, 'it is not of the group any more');
  });

  it('have what the status says, and nulls for what it does not', () => {
    const [found, ...others] = rolloutProgress([
      { name: 'none', rollout: null },
      { name: 'undecided', rollout: { progress: 'Step 1 of 2' } },
      rolledOut('a', { state: 'Completed' }),
    ]);
    assert.deepEqual(found, {
      policy: 'a',
      group: null,
      state: 'Completed',
      pausedBy: null,
      step: 1,
      progress: 'Step 1 of 2',
      message: '',
      from: 1,
      to: 2,
      generation: 3,
      nodes: 4,
      updated: 1,
      confirmed: null,
      failed: [],
      silent: [],
      waiting: [],
    });
    assert.deepEqual(others, []);
  });
});
