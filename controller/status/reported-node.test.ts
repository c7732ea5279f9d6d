import assert from 'node:assert/strict';
import { type FailingRule, type NodeReport, SILENCE } from '../../apis/node-report.ts';
import { type ReportChange, ReportedNode } from './reported-node.ts';

const NO_NEEDS = new Map();
const RECHECK = new Map([['established', 'established: Recheck']] as const);

function report(more: Partial<NodeReport> = {}): NodeReport {
  const features = ['established'];
  return {
    node: 'a',
    enforced: 'e.1',
    enabled: true,
    failing: [],
    features,
    ...more,
  } as unknown as NodeReport;
}

function failing(policy: string, generation = 1): FailingRule {
  return { apiGroup: 'nodewall.io', policy, generation, rule: 'r', reason: 'why' };
}

describe('a reported node', () => {
  let node: ReportedNode;
  beforeEach(() => {
    node = new ReportedNode('a', 1_000);
  });
  const take = (more: Partial<NodeReport> = {}, now = 1_000): ReportChange =>
    node.receive(report(more), now, (policy) => !policy.includes('invented'));

  it('is silent for rollouts sooner, as long as it never reported', () => {
    assert.equal(node.isSilent(75_999), false);
    assert.equal(node.isSilent(76_000), true);
    assert.equal(node.whyNotCounted(NO_NEEDS), null, 'it may still come');
    assert.match(node.whySilent(), /has not reported; check/);
    take();
    assert.equal(node.isSilent(100_000), false);
  });

  it('falls silent once after the last sign of life, and counts again by a report', () => {
    take();
    node.heard(2_000);
    assert.equal(node.fallsSilent(1_999 + SILENCE), false);
    assert.equal(node.fallsSilent(2_000 + SILENCE), true);
    assert.equal(node.fallsSilent(2_001 + SILENCE), false, 'only once');
    assert.match(node.whyNotCounted(NO_NEEDS) ?? '', /not reported for 3 minutes/);
    assert.equal(take({}, 300_000).isOfAll, true);
    assert.equal(node.whyNotCounted(NO_NEEDS), null);
    assert.equal(take({}, 300_000).isOfAll, false, 'the same report');
  });

  it('has no revision in force while nothing is enforced', () => {
    assert.equal(take().before, null);
    assert.equal(node.enforced?.number, 1);
    assert.equal(take({ enabled: false }).before?.number, 1);
    assert.equal(node.enforced, null);
    take({ enforced: null });
    assert.equal(node.enforced, null);
  });

  it('names a trouble of all policies, which is new only once', () => {
    const off = take({ off: 'by hand' });
    assert.deepEqual(
      [off.isOfAll, off.newTrouble],
      [true, 'nodewall is off on the node (nodewall off): by hand'],
    );
    assert.equal(node.whyNotCounted(NO_NEEDS), off.newTrouble);
    const again = take({ viewError: 'bug' });
    assert.deepEqual([again.isOfAll, again.newTrouble], [true, null], 'another trouble');
    assert.match(node.trouble ?? '', /cannot follow the controller: bug/);
    assert.deepEqual([take().isOfAll, node.trouble], [true, null]);
  });

  it('lacks the features that its agent does not announce', () => {
    take();
    assert.equal(node.whyPartly(RECHECK), null);
    assert.equal(take({ features: [] }).isOfAll, true);
    assert.match(node.whyNotCounted(RECHECK) ?? '', /ignores established: Recheck/);
    assert.equal(node.whyNotCounted(NO_NEEDS), null, 'for other policies it counts');
  });

  it('keeps what fails by policy, of policies that exist', () => {
    const change = take({ failing: [failing('p'), failing('q'), failing('p', 2), failing('invented')] });
    assert.deepEqual(change.failedBefore, []);
    assert.deepEqual([...node.failing.keys()], ['nodewall.io/p', 'nodewall.io/q']);
    assert.deepEqual(
      node.failing.get('nodewall.io/p')?.map(({ generation }) => generation),
      [1, 2],
    );
    assert.deepEqual(take().failedBefore, ['nodewall.io/p', 'nodewall.io/q']);
    assert.equal(node.failing.size, 0);
  });

  it('tries a generation of a policy; a change of that is named, of policies that exist', () => {
    const tried = (policy: string, generation: number) => {
      return { apiGroup: 'nodewall.io', policy, generation } as const;
    };
    assert.deepEqual(take({ tried: [tried('p', 1), tried('invented', 1)] }).tried, ['nodewall.io/p']);
    assert.deepEqual(
      [node.tries('nodewall.io/p', 1), node.tries('nodewall.io/p', 2), node.tries('nodewall.io/q', 1)],
      [true, false, false],
    );
    assert.deepEqual(take({ tried: [tried('p', 1)] }).tried, []);
    assert.deepEqual(take({ tried: [tried('p', 2), tried('q', 1)] }).tried, [
      'nodewall.io/p',
      'nodewall.io/q',
    ]);
    assert.deepEqual(take().tried, ['nodewall.io/p', 'nodewall.io/q']);
  });
});
