import assert from 'node:assert/strict';
import { MOST_EXCEPTIONS, OTHER_REASONS } from '../../apis/console.ts';
import type { NodeException } from '../status/realization.ts';
import { type OverviewPolicyFacts, overviewPolicy } from './overview-policy.ts';

const NODES = Array.from({ length: 200 }, (_, i) => `n${String(i).padStart(3, '0')}`);
const INDEXES = new Map(NODES.map((name, i) => [name, i]));

function except(node: number, state: NodeException['state'], reason = ''): NodeException {
  return { node: NODES[node] ?? '', state, reason, rule: null };
}

function facts(changes: Partial<OverviewPolicyFacts> = {}): OverviewPolicyFacts {
  const nodes = NODES.slice(0, 10);
  return {
    apiGroup: 'crd.antrea.io',
    name: 'p',
    spec: { priority: 5 },
    generation: 2,
    inForce: 2,
    status: null,
    versions: [{ generation: 2, nodes, exceptions: [] }],
    changed: null,
    isEnabled: true,
    ...changes,
  };
}

describe('a policy in the overview', () => {
  it('is in force since the last of its nodes has it', () => {
    const first = overviewPolicy(facts(), INDEXES, null, 'T1');
    assert.deepEqual([first.since, first.sinceAtLeast, first.nodes], [null, 'T1', [[0, 9]]]);
    assert.deepEqual(overviewPolicy(facts(), INDEXES, first, 'T2'), first);
    const versions = [{ generation: 3, nodes: NODES.slice(0, 10), exceptions: [except(4, 'Pending')] }];
    const edited = facts({ generation: 3, inForce: 3, versions });
    const pending = overviewPolicy(edited, INDEXES, first, 'T3');
    assert.deepEqual([pending.since, pending.sinceAtLeast, pending.phase], [null, null, 'Realizing']);
    assert.deepEqual(pending.exceptions, [
      { nodes: [[4, 4]], state: 'Pending', reason: '', rule: null, generation: null, since: 'T3' },
    ]);
    const later = overviewPolicy(edited, INDEXES, pending, 'T4');
    assert.equal(later.exceptions[0]?.since, 'T3', 'it began then');
    const done = facts({
      generation: 3,
      inForce: 3,
      versions: [{ generation: 3, nodes: NODES.slice(0, 10), exceptions: [] }],
    });
    assert.deepEqual(overviewPolicy(done, INDEXES, later, 'T5').since, 'T5');
  });

  it('is in force since its status says so, for the first who looks', () => {
    const realized = (observedGeneration: number) => {
      const condition = { type: 'Realized', status: 'True', reason: 'r', message: '' } as const;
      const status = {
        phase: 'Realized' as const,
        observedGeneration,
        currentNodesRealized: 10,
        desiredNodesRealized: 10,
        conditions: [{ ...condition, observedGeneration, lastTransitionTime: 'T0' }],
      } as const;
      const { since, sinceAtLeast } = overviewPolicy(facts({ status }), INDEXES, null, 'T1');
      return [since, sinceAtLeast];
    };
    assert.deepEqual(realized(2), ['T0', null]);
    assert.deepEqual(realized(1), [null, 'T1'], 'of another version');
  });

  it('has the nodes that a rollout has not come to', () => {
    const versions = [
      { generation: 1, nodes: NODES.slice(3, 10), exceptions: [except(9, 'Failed', 'no')] },
      { generation: 2, nodes: NODES.slice(0, 3), exceptions: [except(1, 'Trying')] },
    ];
    const { enforcedGeneration, exceptions, message } = overviewPolicy(
      facts({ versions }),
      INDEXES,
      null,
      'T',
    );
    assert.deepEqual(
      exceptions.map(({ state, generation, nodes }) => [state, generation, nodes]),
      [
        ['OtherVersion', 1, [[3, 8]]],
        ['Failed', null, [[9, 9]]],
        ['Trying', 2, [[1, 1]]],
      ],
    );
    assert.deepEqual([enforcedGeneration, message], [2, '9 of 10 nodes enforce it']);
  });

  it('has a bounded number of reasons, and each node in one', () => {
    const exceptions = NODES.map((_, i) => except(i, 'Failed', `reason ${i}`));
    const found = overviewPolicy(
      facts({ versions: [{ generation: 2, nodes: NODES, exceptions }] }),
      INDEXES,
      null,
      'T',
    );
    assert.equal(found.exceptions.length, MOST_EXCEPTIONS + 1);
    assert.deepEqual(found.exceptions.at(-1)?.nodes, [[MOST_EXCEPTIONS, NODES.length - 1]]);
    assert.equal(found.exceptions.at(-1)?.reason, OTHER_REASONS);
    assert.equal(found.phase, 'Failed');
  });

  it('is nowhere where none of its versions was valid', () => {
    const { phase, nodes, enforcedGeneration, since } = overviewPolicy(
      facts({ spec: null, inForce: null, versions: [] }),
      INDEXES,
      null,
      'T',
    );
    assert.deepEqual([phase, nodes, enforcedGeneration, since], ['Pending', [], null, null]);
  });
});
