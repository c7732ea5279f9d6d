import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { DEFAULT_EGRESS_CONFIG } from '../../apis/egress/config.ts';
import { NO_OBJECTS, type Service, type Tier } from '../../apis/objects.ts';
import { MirrorReceiver, MirrorSender } from '../../lib/process/mirrored-process.ts';
import { fakeNode, fakePod } from '../../test/fake/egress-objects.ts';
import { rulesOf } from '../impact/object-mirror.ts';
import type { AdmissionObjects, AdmissionWorld } from './admission.ts';
import { NO_LISTS, type WorldLists, worldChanges } from './world-mirror.ts';

const tier = (name: string): Tier => ({ kind: 'Tier', apiGroup: 'nodewall.io', name, priority: 3 });
const service = (name: string) => ({ kind: 'Service', namespace: 'n', name }) as unknown as Service;
const NOTHING: AdmissionObjects = { ...NO_OBJECTS };
const worldOf = (objects: Partial<AdmissionObjects> | null): AdmissionWorld => ({
  objects: objects === null ? null : { ...NOTHING, ...objects },
  failsafe: DEFAULT_CONFIG.failsafe,
  interfaceGroups: ['pods'],
  believesAnyServer: false,
});

describe('the mirror of the world', () => {
  let changes: ReturnType<typeof worldChanges>;
  let sender: MirrorSender;
  let receiver: MirrorReceiver<WorldLists>;
  beforeEach(() => {
    changes = worldChanges();
    sender = new MirrorSender(rulesOf);
    receiver = new MirrorReceiver(NO_LISTS);
  });

  /** Returns the number of objects that were sent. */
  function send(world: AdmissionWorld): number {
    let count = 0;
    for (const update of structuredClone([...sender.updates(changes(world))])) {
      count += update.added.length;
      receiver.receive(update);
    }
    return count;
  }

  it('has the lists in order, and keeps them while nothing is listed', () => {
    const [a, b] = [tier('a'), tier('b')];
    const first = { ...NO_LISTS, services: [service('s')], tiers: [a, b] };
    assert.equal(send(worldOf(null)), 0);
    assert.equal(send(worldOf(first)), 3);
    assert.deepEqual(receiver.lists(), first);
    assert.equal(send(worldOf(null)), 0);
    assert.equal(send(worldOf({ ...first, tiers: [b, a] })), 0);
    assert.deepEqual(receiver.lists().tiers, [b, a]);
    assert.equal(send(worldOf({ tiers: [b] })), 0);
    assert.deepEqual(receiver.lists(), { ...NO_LISTS, tiers: [b] });
  });

  it('sends large policies in parts', () => {
    const policies = Array.from({ length: 4 }, (_, index) => ({
      kind: 'ClusterNetworkPolicy',
      name: `p${index}`,
      spec: { ingress: Array.from({ length: 300 }, () => ({ action: 'Drop' })) },
    })) as unknown as AdmissionObjects['policies'];
    const updates = [...sender.updates(changes(worldOf({ policies })))];
    assert.deepEqual(
      updates.map(({ added }) => added.length).filter((count) => count > 0),
      [2, 2],
    );
  });

  it('sends of the pods only those that a warning needs, and all Nodes', () => {
    const pods = Array.from({ length: 5000 }, (_, index) => ({
      kind: 'Pod' as const,
      namespace: 'n',
      name: `p${index}`,
      labels: {},
      serviceAccount: 'default',
      addresses: [`10.0.${index >> 8}.${index & 255}`],
    }));
    assert.equal(send(worldOf({ pods })), 64);
    const nodes = [
      { kind: 'Node' as const, name: 'a', labels: {}, addresses: [], podCIDRs: ['10.0.0.0/24'] },
    ];
    const others = ['b', 'c'].map((name) => fakeNode(name, ['192.0.2.1', '2001:db8::1']));
    assert.equal(send(worldOf({ pods, nodes: [...nodes, ...others] })), 3);
    assert.deepEqual(receiver.lists().pods, []);
  });

  it('sends of the pods those outside of all networks, where egress gateways are read', () => {
    const pod = (name: string, address: string) => fakePod(`n/${name}`, [address]);
    const [inside, a, b] = [pod('inside', '10.0.0.1'), pod('a', '10.1.0.1'), pod('b', '10.1.0.2')];
    const nodes = [fakeNode('n', ['192.0.2.1'], { podCIDRs: ['10.0.0.0/24'] })];
    const wider = [fakeNode('n', ['192.0.2.1'], { podCIDRs: ['10.0.0.0/24', '10.1.0.2/32'] })];
    for (const [objects, expected] of [
      [{ nodes, pods: [inside, a] }, ['a']],
      [{ nodes, pods: [inside, b] }, ['b']],
      [{ nodes, pods: [a, b, inside] }, ['a', 'b']],
      [{ nodes: wider, pods: [a, b, inside] }, ['a']],
      [{ nodes: wider, pods: [] }, []],
    ] as const) {
      send({ ...worldOf(objects), egress: DEFAULT_EGRESS_CONFIG });
      const found = receiver.lists().outsidePods;
      assert.deepEqual(found.map(({ name }) => name).sort(), expected);
      assert.deepEqual(receiver.lists().nodes, objects.nodes);
    }
  });
});
