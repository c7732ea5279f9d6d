import assert from 'node:assert/strict';
import { POLICY_PHASES, type PolicyStatus } from './policy-status.ts';
import type { RolloutStatus } from './rollout.ts';
import { isUnderWay, policyProblem, statusProblems } from './status-problems.ts';

const FAILING = { failingNodes: [{ node: 'a', reason: 'probe api fails' }] };

function status(
  phase: PolicyStatus['phase'],
  more: Partial<PolicyStatus> & { readonly rollout?: RolloutStatus } = {},
): PolicyStatus & { readonly rollout?: RolloutStatus } {
  const counts = { observedGeneration: 1, currentNodesRealized: 0, desiredNodesRealized: 3 };
  return { phase, ...counts, conditions: [], ...more };
}

function rollout(state: string): RolloutStatus {
  return { progress: 'Step 1 of 2', decision: { state } } as unknown as RolloutStatus;
}

describe('the problem of a policy', () => {
  const isProblem = (...given: Parameters<typeof status>): boolean =>
    policyProblem({ name: 'p', status: status(...given) }) !== null;

  it('is none of one that is enforced, or tried without a failure', () => {
    assert.deepEqual(
      POLICY_PHASES.filter((phase) => !isProblem(phase)),
      ['Trying', 'Realized', 'NoNodes'],
    );
    assert.equal(isProblem('Trying', FAILING), true);
  });

  it('is none of a rollout between its steps, unless it failed or was paused', () => {
    for (const phase of ['Pending', 'Realizing', 'Trying'] as const) {
      const progressing = { rollout: rollout('Progressing') };
      assert.equal(isProblem(phase, progressing), false, phase);
      assert.equal(isUnderWay(status(phase, progressing)), true, phase);
      assert.equal(isProblem(phase, { ...progressing, ...FAILING }), true, phase);
      assert.equal(isProblem(phase, { rollout: rollout('Paused') }), true, phase);
    }
  });
});

describe('the problems of a cluster', () => {
  it('are those of the gate, Guardrails, policies and nodes, in this order', () => {
    const condition = { type: 'GateSet', status: 'False', reason: '', message: 'Set it.' } as const;
    const unset = { ...condition, observedGeneration: 1, lastTransitionTime: '' };
    const found = statusProblems(
      {
        nodes: [{ name: 'n' }],
        policies: [
          { name: 'well', status: status('Realized', { conditions: [unset] }) },
          { name: 'bad', status: status('Failed') },
        ],
        guardrails: [
          { name: 'g' },
          { name: 'holds', status: { phase: 'Holds', observedGeneration: 1, violations: [] } },
        ],
      },
      0,
    );
    assert.deepEqual(
      found.map(({ object, phase }) => `${object} ${phase}`),
      [
        'FeatureGate/NodeNetworkPolicy Unset',
        'Guardrail/g Pending',
        'ClusterNetworkPolicy/bad Failed',
        'Node/n Unknown',
      ],
    );
    assert.deepEqual(statusProblems({ nodes: [], policies: [], guardrails: [] }, 0), []);
  });
});
