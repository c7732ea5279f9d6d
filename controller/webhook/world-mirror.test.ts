import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { DEFAULT_EGRESS_CONFIG } from '../../apis/egress/config.ts';
import { NO_OBJECTS, type Service, type Tier } from '../../apis/objects.ts';
import { fakeNode, fakePod } from '../../test/fake/egress-objects.ts';
import type { AdmissionObjects, AdmissionWorld } from './admission.ts';
import { WorldReceiver, WorldSender } from './world-mirror.ts';

const tier = (name: string): Tier => ({ kind: 'Tier', apiGroup: 'nodewall.io', name, priority: 3 });
const NOTHING: AdmissionObjects = { ...NO_OBJECTS };
const worldOf = (objects: Partial<AdmissionObjects> | null): AdmissionWorld => ({
  objects: objects === null ? null : { ...NOTHING, ...objects },
  failsafe: DEFAULT_CONFIG.failsafe,
  interfaceGroups: ['pods'],
  believesAnyServer: false,
});

describe('the mirror of the world', () => {
  let sender: WorldSender;
  let receiver: WorldReceiver;
  beforeEach(() => {
    sender = new WorldSender();
    receiver = new WorldReceiver();
  });

  /** Returns the number of objects that were sent. */
  function send(world: AdmissionWorld): number {
    let count = 0;
    for (const update of structuredClone([...sender.updates(world)])) {
      count += update.added.length;
      receiver.receive(update);
    }
    return count;
  }

  it('has each state, and sends each object once', () => {
    const [a, b, c] = [tier('a'), tier('b'), tier('c')];
    for (const [tiers, sent] of [
      [[a, b], 2],
      [[a, b], 0],
      [[b, c], 1],
      [[], 0],
      [[c, a], 2],
    ] as const) {
      const world = worldOf({ tiers });
      assert.equal(send(world), sent);
      const { tiers: found } = receiver.world?.objects ?? assert.fail();
      assert.deepEqual(found, tiers);
    }
    assert.deepEqual(receiver.world, worldOf({ tiers: [c, a] }));
  });

  it('begins before anything was listed', () => {
    assert.equal(send(worldOf(null)), 0);
    assert.deepEqual(receiver.world, worldOf(null));
    send(worldOf({ tiers: [tier('a')] }));
    assert.deepEqual(receiver.world, worldOf({ tiers: [tier('a')] }));
  });

  it('sends thousands of objects in parts', () => {
    const services = Array.from(
      { length: 2000 },
      (_, index) => ({ kind: 'Service', namespace: 'n', name: `s${index}` }) as unknown as Service,
    );
    const updates = [...sender.updates(worldOf({ services }))];
    assert.ok(updates.length > 3 && updates.every(({ added }) => added.length <= 500));
    for (const update of updates) receiver.receive(update);
    assert.equal(receiver.world?.objects?.services.length, 2000);
  });

  it('sends of the pods and Nodes only those that a warning needs', () => {
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
    assert.equal(send(worldOf({ pods, nodes })), 1);
    assert.deepEqual(receiver.world?.objects?.pods, []);
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
      const found = receiver.world?.objects?.outsidePods ?? assert.fail();
      assert.deepEqual(found.map(({ name }) => name).sort(), expected);
      assert.deepEqual(receiver.world?.objects?.nodes, objects.nodes);
    }
  });
});
