import assert from 'node:assert/strict';
import { cellState } from '../../apis/console.ts';
import { sampleOverview } from '../../test/console/sample-cluster.ts';
import { indexesOf, isUnusual, nodeRows, sizeOf, stateCounts } from './matrix.ts';

describe('node × policy', () => {
  const overview = sampleOverview({ nodes: 24, policies: 12 });
  const { nodes, policies } = overview;

  it('is counted by policy as its cells are', () => {
    for (const [i, counts] of stateCounts(overview).entries()) {
      const policy = policies[i] ?? assert.fail();
      const states = nodes.map((_, node) => cellState(overview, policy, node));
      const wanted = Map.groupBy(states, (state) => state);
      wanted.delete('NotApplied');
      const sorted = (entries: Iterable<readonly [string, number]>) => [...entries].sort();
      assert.deepEqual(
        sorted(counts),
        sorted([...wanted].map(([state, { length }]) => [state, length] as const)),
        policy.name,
      );
    }
  });

  it('is counted by node as its cells are', () => {
    const rows = nodeRows(overview);
    assert.deepEqual(
      rows.map(({ index }) => index),
      nodes.map((_, index) => index),
    );
    for (const { index, desired, inForce, exceptions } of rows) {
      const states = policies.map((policy) => cellState(overview, policy, index));
      assert.equal(desired, states.filter((state) => state !== 'NotApplied').length, nodes[index]?.name);
      assert.equal(inForce, states.filter((state) => state === 'InForce').length, nodes[index]?.name);
      for (const { policy, exception } of exceptions) assert.ok(policy.exceptions.includes(exception));
    }
    // One of each kind is among them.
    assert.ok(rows.some(({ inForce, desired }) => inForce === 0 && desired > 0));
    assert.ok(rows.some(({ exceptions }) => exceptions.length > 1));
  });

  it('names the policies that somebody may want to look at', () => {
    const unusual = policies.filter(isUnusual).map(({ name }) => name);
    assert.deepEqual(unusual, [
      ...['protect-etcd', 'protect-ssh', 'node-exporter', 'ingress-http', 'close-telnet', 'egress-metadata'],
    ]);
  });

  it('has sizes and indexes of ranges', () => {
    const ranges = [
      [0, 2],
      [5, 5],
    ] as const;
    assert.equal(sizeOf(ranges), 4);
    assert.deepEqual([...indexesOf(ranges)], [0, 1, 2, 5]);
  });
});
