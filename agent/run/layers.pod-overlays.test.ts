import assert from 'node:assert/strict';
import type { AddressSet } from '../../apis/compiled.ts';
import { BARE } from '../../test/fake/fake-links.ts';
import { addressSet, stateOf } from '../../test/fake/node-state.ts';
import { type Envelope, envelopeOf } from '../apply/envelope.ts';
import type { LocalPods } from '../interfaces/local-pods.ts';
import { NO_VRFS, type Vrfs, WatchedVrfs } from '../interfaces/vrfs.ts';
import { NO_PLATFORM, type NodePlatform, WatchedPlatform } from '../platform/watched-platform.ts';
import { interfaceOverlay } from './layers.ts';

describe('interfaceOverlay', () => {
  const first = addressSet('local-pods');
  const second = addressSet('local-pods');
  let now: AddressSet | null;
  let listeners: Set<() => void>;
  let submitted: Envelope[];
  const overlaid = (vrfs: Vrfs = NO_VRFS, platform: NodePlatform = NO_PLATFORM) => {
    const localPods: LocalPods = {
      now: () => now,
      listen(changed) {
        listeners.add(changed);
        return () => void listeners.delete(changed);
      },
    };
    return interfaceOverlay({ localPods, vrfs, platform }, (envelope) => submitted.push(envelope));
  };
  const become = (set: AddressSet) => {
    now = set;
    for (const changed of listeners) changed();
  };
  beforeEach(() => {
    now = null;
    listeners = new Set();
    submitted = [];
  });

  it('passes on a state while no routes are known', () => {
    const envelope = envelopeOf(stateOf([]));
    overlaid().submit(envelope);
    assert.deepEqual(submitted, [envelope]);
    assert.equal(submitted[0], envelope);
  });

  it('submits the latest state again after each change, with its original', () => {
    const overlay = overlaid();
    become(first);
    assert.equal(submitted.length, 0, 'nothing to submit yet');
    const [one, two] = [stateOf([]), stateOf([])];
    overlay.submit(envelopeOf(one));
    overlay.submit(envelopeOf(two));
    become(second);
    const known: readonly unknown[] = [first, second];
    assert.deepEqual(
      submitted.map(({ resolved }) => known.indexOf(resolved.localPods)),
      [0, 0, 1],
    );
    assert.deepEqual(
      submitted.map(({ plain }) => [one, two].indexOf(plain)),
      [0, 1, 1],
    );
    overlay.close();
    become(first);
    assert.equal(submitted.length, 3);
  });

  it('does so with the devices of VRFs, known or not which routes there are', () => {
    const vrfs = new WatchedVrfs();
    const overlay = overlaid(vrfs);
    overlay.submit(envelopeOf(stateOf([])));
    const red = { ...BARE, index: 2, name: 'red', kind: 'vrf', isUp: true };
    vrfs.update([red]);
    become(first);
    vrfs.update([]);
    assert.deepEqual(
      submitted.map(({ resolved }) => [resolved.vrfs, resolved.localPods === first]),
      [
        [undefined, false],
        [['red'], false],
        [['red'], true],
        [[], true],
      ],
    );
    overlay.close();
    vrfs.update([red]);
    assert.equal(submitted.length, 4);
  });

  it("adds what the node's kernel needs to carry pods, in place of what an annotation says", async () => {
    const platform = new WatchedPlatform({ read: async (_, last) => last, changed: () => {} });
    overlaid(NO_VRFS, platform).submit(
      envelopeOf({
        ...stateOf([]),
        platform: [{ protocol: 47, ports: [0, 65535], peers: 'nodes', reason: '' }],
      }),
    );
    platform.update([{ ...BARE, index: 7, name: 'flannel.1', kind: 'vxlan', isUp: true, tunnelPort: 8472 }]);
    await platform.refresh();
    platform.update([]);
    assert.deepEqual(
      submitted.map(({ resolved }) => resolved.platform?.map(({ protocol, ports }) => [protocol, ...ports])),
      [undefined, [['udp', 8472, 8472]], undefined],
    );
  });
});
