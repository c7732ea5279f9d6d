import assert from 'node:assert/strict';
import type { EgressSlot, NodeEgress, TunnelEnd } from '../../apis/egress/node-egress.ts';
import { toMemberSet } from '../../lib/net/member-set.ts';
import { fakeNodeEgress } from '../../test/fake/egress-objects.ts';
import { endedConnections, toEgressMemory, withLingering, withMemory } from './lingering.ts';
import { slotMark, takeMark } from './render/marks.ts';

const slots = (...all: readonly (readonly [number, string])[]): ReadonlyMap<number, EgressSlot> =>
  new Map(all.map(([number, node]) => [number, { number, node, take: 0 }]));
const peers = (...names: readonly string[]): ReadonlyMap<string, TunnelEnd> =>
  new Map(names.map((node) => [node, { node, address: '192.0.2.1', mac: '0e:00:00:00:00:01' }]));

describe('withLingering', () => {
  it('keeps slots and takes that are no longer needed, with their peers', () => {
    const take = { kind: 'node', interface: null } as const;
    const before = fakeNodeEgress({
      slots: slots([1, 'a'], [2, 'b']),
      peers: peers('a', 'b'),
      takes: new Map([[1, take]]),
    });
    const now = fakeNodeEgress({ slots: slots([2, 'b']), peers: peers('b') });
    const kept = withLingering(before, now);
    assert.deepEqual([...kept.slots.keys()].sort(), [1, 2]);
    assert.deepEqual([...kept.peers.keys()].sort(), ['a', 'b']);
    assert.deepEqual(kept.takes, before.takes);
  });

  it('keeps the keys that a controller does not say again, of the same ends', () => {
    const end = (node: string, key: string, mac = '0e:00:00:00:00:01'): TunnelEnd => ({
      node,
      address: '192.0.2.1',
      mac,
      key,
    });
    const state = (...ends: readonly TunnelEnd[]) =>
      fakeNodeEgress({
        slots: slots(...ends.map(({ node }, i) => [i + 1, node] as const)),
        peers: new Map(ends.map((one) => [one.node, one])),
      });
    const before = state(end('a', 'one'), end('b', 'two'), end('c', 'three'));
    // The last one says that the key of the first is its own.
    const now = state(end('a', ''), end('b', 'new'), end('c', '', '0e:00:00:00:00:09'), end('d', 'one'));
    const kept = withLingering(before, now);
    assert.deepEqual(
      [...kept.peers.values()].map(({ key }) => key),
      ['one', 'new', '', ''],
    );
    assert.equal(kept.peers.get('a'), before.peers.get('a'));
    // And the next process knows them.
    const memory = JSON.parse(JSON.stringify(toEgressMemory(kept, now, [])));
    assert.deepEqual([...withMemory(now, memory).peers].sort(), [...kept.peers].sort());
  });

  it('lets no end that lingers keep a key that another end has now, nor one kept by the memory', () => {
    const end = (node: string, mac: string): TunnelEnd => ({ node, address: '192.0.2.1', mac, key: 'one' });
    const [old, renamed] = [end('old', '0e:00:00:00:00:01'), end('new', '0e:00:00:00:00:02')];
    const before = fakeNodeEgress({ slots: slots([1, 'old']), peers: new Map([['old', old]]) });
    const now = fakeNodeEgress({ slots: slots([2, 'new']), peers: new Map([['new', renamed]]) });
    const kept = withLingering(before, now);
    assert.deepEqual([...kept.peers], [['new', renamed]]);
    assert.deepEqual([...kept.slots.keys()].sort(), [1, 2]);
    assert.equal(withLingering(kept, now).peers, kept.peers);
    const memory = toEgressMemory(before, before, []);
    const saved = { ...memory, peers: [old], slots: [...before.slots.values()] };
    assert.deepEqual([...withLingering(withMemory(now, saved), now).peers.values()], [renamed]);
  });

  it('gives a number that is needed again to the new slot', () => {
    const before = fakeNodeEgress({ slots: slots([1, 'a']), peers: peers('a') });
    const kept = withLingering(before, fakeNodeEgress({ slots: slots([1, 'b']), peers: peers('b') }));
    assert.equal(kept.slots.get(1)?.node, 'b');
  });

  it('keeps the ways back to pods that were served, while their nodes are there', () => {
    const nodes = toMemberSet([], ['192.0.2.1']);
    const take = { kind: 'node', interface: null } as const;
    const [end] = peers('a').values();
    const served = new Map(
      ['10.1.0.7', '10.1.0.8', '10.9.0.7'].map((address) => [address, { node: 'a', takes: [] }]),
    );
    const before = fakeNodeEgress({
      nodes,
      peers: new Map([['a', { ...(end ?? assert.fail()), networks: ['10.1.0.0/24'] }]]),
      arrivals: served,
      takes: new Map([[1, take]]),
    });
    const arrivals = new Map([...served].slice(0, 1));
    const some = withLingering(before, fakeNodeEgress({ nodes, peers: before.peers, arrivals }));
    const ways = ['10.1.0.0/24', '10.9.0.7/32'].map((network) => [network, 'a']);
    const waysOf = ({ answers = new Map() }: NodeEgress) =>
      answers
        .entries()
        .map(([network, { node }]) => [network, node])
        .toArray();
    assert.deepEqual(waysOf(some), ways);
    const none = withLingering(some, fakeNodeEgress({ nodes }));
    assert.deepEqual(waysOf(none), ways);
    // Only what a node is asked for lets it in.
    assert.equal(none.peers.size, 0);
    const again = withLingering(none, fakeNodeEgress({ nodes }));
    assert.equal(again.answers, none.answers);
    assert.equal(withLingering(none, fakeNodeEgress()).answers, undefined);
  });

  it('forgets the way back to a pod whose address is served again, wherever that pod runs', () => {
    const nodes = toMemberSet([], ['192.0.2.1']);
    const [a, b] = [...peers('a', 'b').values()];
    const ends = new Map([
      ['a', a ?? assert.fail()],
      ['b', { ...(b ?? assert.fail()), networks: ['10.1.0.0/24'] }],
    ]);
    const servedBy = (node: string) =>
      fakeNodeEgress({ nodes, peers: ends, arrivals: new Map([['10.1.0.7', { node, takes: [] }]]) });
    const gone = withLingering(servedBy('a'), fakeNodeEgress({ nodes, peers: ends }));
    assert.deepEqual([...(gone.answers?.keys() ?? [])], ['10.1.0.7/32']);
    assert.equal(withLingering(gone, servedBy('b')).answers, undefined);
  });

  it('is the same object if nothing lingers', () => {
    const now = fakeNodeEgress({ slots: slots([1, 'a']), peers: peers('a') });
    assert.equal(withLingering(null, now), now);
    assert.equal(withLingering(fakeNodeEgress({ slots: slots([1, 'a']) }), now), now);
  });
});

describe('endedConnections', () => {
  const owned = (...addresses: string[]): NodeEgress['owned'] => [
    ...[{ gateway: 'g', slot: '0', epoch: 1, addresses, announce: 'L2', leaseMilliseconds: 2000 } as const],
  ];
  const floatingSlot = (node: string, take = 0): ReadonlyMap<number, EgressSlot> =>
    new Map([[3, { number: 3, node, take, floating: '0 g' }]]);
  const ended = (before: Partial<NodeEgress>, now: Partial<NodeEgress>) => {
    const { marks, addresses } = endedConnections(fakeNodeEgress(before), fakeNodeEgress(now));
    return [...marks, ...addresses];
  };

  it('has those whose slot means another gateway, but for a floating slot that moved', () => {
    assert.deepEqual(ended({ slots: slots([1, 'a']) }, { slots: slots([1, 'b']) }), [slotMark(1)]);
    assert.deepEqual(ended({ slots: floatingSlot('a') }, { slots: floatingSlot('b') }), []);
    assert.deepEqual(ended({ slots: slots([3, 'a']) }, { slots: floatingSlot('a') }), [slotMark(3)]);
  });

  it('has those of a floating slot that came to this node, once', () => {
    const there = { slots: floatingSlot('a') };
    const here = { slots: floatingSlot('a'), owned: owned('192.0.2.1') };
    assert.deepEqual(ended(there, here), [slotMark(3)]);
    assert.deepEqual(ended(here, here), []);
    assert.deepEqual(ended({ slots: floatingSlot('self', 1) }, there), [slotMark(3)]);
  });

  it('has those of addresses that this node no longer owns, and of a take that means another', () => {
    assert.deepEqual(ended({ owned: owned('192.0.2.1', '192.0.2.2') }, { owned: owned('192.0.2.1') }), [
      '192.0.2.2',
    ]);
    const takes = (ipv4: string): NodeEgress['takes'] =>
      new Map([[2, { kind: 'floating', ipv4: [ipv4], ipv6: [] }]]);
    assert.deepEqual(ended({ takes: takes('192.0.2.1') }, { takes: takes('192.0.2.2') }), [takeMark(2)]);
    assert.deepEqual(ended({ takes: takes('192.0.2.1') }, { takes: takes('192.0.2.1') }), []);
  });
});
