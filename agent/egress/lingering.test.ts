import assert from 'node:assert/strict';
import type { EgressSlot, TunnelEnd } from '../../apis/egress/node-egress.ts';
import { fakeNodeEgress } from '../../test/fake/node-egress.ts';
import { withLingering } from './lingering.ts';

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

  it('gives a number that is needed again to the new slot', () => {
    const before = fakeNodeEgress({ slots: slots([1, 'a']), peers: peers('a') });
    const kept = withLingering(before, fakeNodeEgress({ slots: slots([1, 'b']), peers: peers('b') }));
    assert.equal(kept.slots.get(1)?.node, 'b');
  });

  it('is the same object if nothing lingers', () => {
    const now = fakeNodeEgress({ slots: slots([1, 'a']), peers: peers('a') });
    assert.equal(withLingering(null, now), now);
    assert.equal(withLingering(fakeNodeEgress({ slots: slots([1, 'a']) }), now), now);
  });
});
