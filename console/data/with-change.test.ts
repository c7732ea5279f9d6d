import assert from 'node:assert/strict';
import { type OverviewChange, policyKey } from '../../apis/console.ts';
import { sampleOverview, samplePolicy } from '../../test/console/sample-cluster.ts';
import { withChange } from './with-change.ts';

const OVERVIEW = sampleOverview({ nodes: 4, policies: 3 });
const CHANGE: OverviewChange = { time: '2026-11-26T15:00:00Z', revision: '9000' };

describe('a change of the overview', () => {
  it('replaces what it has, and leaves the rest the same objects', () => {
    const [first, second, third] = OVERVIEW.policies;
    const policy = { ...samplePolicy(1, 4), generation: 7 };
    const after = withChange(OVERVIEW, { ...CHANGE, policies: [policy], isEnabled: false });
    assert.equal(after.time, CHANGE.time);
    assert.equal(after.isEnabled, false);
    assert.equal(after.nodes, OVERVIEW.nodes);
    assert.equal(after.problems, OVERVIEW.problems);
    assert.deepEqual(after.policies, [first, policy, third]);
    assert.equal(after.policies[0], first);
    assert.notEqual(second, policy);
  });

  it('replaces nodes by their index and name', () => {
    const [node = assert.fail()] = OVERVIEW.nodes;
    const off = { ...node, phase: 'Off' } as const;
    const after = withChange(OVERVIEW, { ...CHANGE, nodes: [{ index: 0, node: off }] });
    assert.deepEqual(after.nodes[0], off);
    assert.equal(after.nodes[1], OVERVIEW.nodes[1]);
    assert.throws(
      () => withChange(OVERVIEW, { ...CHANGE, nodes: [{ index: 1, node: off }] }),
      /node 1 is not cp-01/,
    );
  });

  it('adds, removes and moves policies by their order', () => {
    const added = samplePolicy(7, 4);
    const [first, second] = OVERVIEW.policies.map(policyKey);
    const order = [policyKey(added), second ?? '', first ?? ''];
    const after = withChange(OVERVIEW, { ...CHANGE, policies: [added], order });
    assert.deepEqual(after.policies.map(policyKey), order);
    assert.throws(() => withChange(OVERVIEW, { ...CHANGE, policies: [added] }), /without a place/);
    assert.throws(() => withChange(OVERVIEW, { ...CHANGE, order: ['nodewall.io/none'] }), /no policy/);
  });
});
