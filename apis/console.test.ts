import assert from 'node:assert/strict';
import { cellState, isInRanges, type OverviewNode, type PolicyException, toRanges } from './console.ts';

const node = (phase: OverviewNode['phase']): OverviewNode => ({
  name: phase,
  phase,
  message: '',
  reported: null,
  version: null,
  dataplane: null,
});
const pending: PolicyException = {
  state: 'Pending',
  reason: '',
  rule: null,
  generation: 1,
  since: '',
  nodes: [[1, 3]],
};

describe('ranges of nodes', () => {
  it('say which nodes are in them', () => {
    const sets = [[], [0], [0, 1, 2], [1, 3, 5, 6, 9], [4]];
    for (const set of sets) {
      const ranges = toRanges(set);
      const found = Array.from({ length: 12 }, (_, i) => i).filter((i) => isInRanges(ranges, i));
      assert.deepEqual(found, set);
    }
    assert.deepEqual(toRanges([1, 3, 5, 6, 7]), [
      [1, 1],
      [3, 3],
      [5, 7],
    ]);
  });
});

describe('a cell of the overview', () => {
  const overview = { nodes: [node('Enforced'), node('Pending'), node('Failing'), node('Off')] };
  const policy = { nodes: toRanges([0, 1, 3]), exceptions: [pending] };

  it('has the exception of its node, else that of all cells of the node', () => {
    const states = overview.nodes.map((_, i) => cellState(overview, policy, i));
    assert.deepEqual(states, ['InForce', 'Pending', 'NotApplied', 'Off']);
  });
});
