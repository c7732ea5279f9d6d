import assert from 'node:assert/strict';
import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import { toMemberSet } from '../../lib/net/member-set.ts';
import { fakeNodeEgress } from '../../test/fake/egress-objects.ts';
import { toEgressMemory, withLingering, withMemory } from './lingering.ts';

describe('EgressMemory', () => {
  it('gives the next process what lingers and is lost, and leaves out what it is told', () => {
    const end = (node: string) => ({ node, address: '192.0.2.1', mac: '0e:00:00:00:00:01' });
    const nodes = toMemberSet([], ['192.0.2.1']);
    const before: NodeEgress = fakeNodeEgress({
      nodes,
      slots: new Map(['a', 'b'].map((node, i) => [i + 1, { number: i + 1, node, take: 0 }])),
      peers: new Map(['a', 'b', 'c'].map((node) => [node, end(node)])),
      takes: new Map([[1, { kind: 'node', interface: null }]]),
      arrivals: new Map([['10.9.0.7', { node: 'c', takes: [] }]]),
    });
    const slots = new Map([...before.slots].slice(1));
    const told = fakeNodeEgress({ nodes, slots, peers: new Map([['b', end('b')]]) });
    const known = withLingering(before, told);
    const memory = toEgressMemory(known, told, ['b']);
    assert.deepEqual(
      memory.slots.map(({ node }) => node),
      ['a'],
    );
    assert.deepEqual(memory.lost, ['b']);
    const read = withMemory(told, JSON.parse(JSON.stringify(memory)));
    for (const part of ['slots', 'takes', 'peers', 'answers'] as const)
      assert.deepEqual([...(read[part] ?? [])].sort(), [...(known[part] ?? [])].sort(), part);
    assert.equal(withMemory(told, null), told);
  });
});
