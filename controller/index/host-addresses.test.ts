import assert from 'node:assert/strict';
import { type ClusterObjects, NO_OBJECTS, type Node, type Pod, type Service } from '../../apis/objects.ts';
import { present } from '../../lib/sharing/present.ts';
import { HostAddresses, MOST_REPORTED } from './host-addresses.ts';

const node = (name: string, ...addresses: string[]): Node => ({ kind: 'Node', name, labels: {}, addresses });
const pod = (name: string, ...addresses: string[]): Pod => ({
  kind: 'Pod',
  namespace: 'default',
  name,
  labels: {},
  serviceAccount: 'default',
  addresses,
});
const service = (clusterIPs: string[], externalAddresses?: string[]): Service => ({
  kind: 'Service',
  namespace: 'default',
  name: 'web',
  selector: null,
  clusterIPs,
  ...present({ externalAddresses }),
  ports: [],
});

const NODES = [node('a', '192.0.2.1'), node('b', '192.0.2.2')];

/** Nodes a and b, and the given objects. */
function world(more: Partial<ClusterObjects> = {}): ClusterObjects {
  return { ...NO_OBJECTS, nodes: NODES, ...more };
}

function counted({ nodes }: ClusterObjects): Record<string, readonly string[] | undefined> {
  return Object.fromEntries(nodes.map(({ name, reportedAddresses }) => [name, reportedAddresses]));
}

describe('addresses that agents report', () => {
  let addresses: HostAddresses;
  beforeEach(() => {
    addresses = new HostAddresses();
    addresses.advance(world());
  });

  /** The reported addresses of node a that count, if only a reports. */
  function ofA(reported: readonly string[], objects = world()): readonly string[] | undefined {
    addresses.report('a', reported);
    return counted(addresses.advance(objects)).a;
  }

  it("are added to the Node's own addresses, sorted and in canonical form", () => {
    const reported = ['2001:DB8:0::1', '10.244.1.1', '192.0.2.1', '9.9.9.9', '10.244.1.1'];
    assert.deepEqual(ofA(reported), ['10.244.1.1', '2001:db8::1']);
    assert.deepEqual(addresses.advance(world()).nodes[0]?.addresses, ['192.0.2.1']);
    assert.deepEqual(ofA(['192.0.2.1']), undefined);
  });

  it('are ignored if they do not identify one machine', () => {
    const unusable = [
      '0.0.0.0',
      '0.1.2.3',
      '127.0.0.1',
      '127.9.9.9',
      '169.254.20.10',
      '224.0.0.1',
      '240.0.0.1',
    ];
    const unusable6 = [
      '255.255.255.255',
      '::',
      '::1',
      'fe80::1',
      'ff02::1',
      '::ffff:10.0.0.1',
      'fe80::1%eth0',
      'x',
    ];
    assert.equal(ofA([...unusable, ...unusable6]), undefined);
    assert.deepEqual(ofA([...unusable, '10.0.0.1', ...unusable6]), ['10.0.0.1']);
  });

  const claims: [string, Partial<ClusterObjects>][] = [
    ['another Node', { nodes: [node('a', '192.0.2.1'), node('b', '192.0.2.2', '10.0.0.9')] }],
    ['a pod', { pods: [pod('p', '10.0.0.8', '10.0.0.9')] }],
    ['a Service as cluster IP', { services: [service(['10.0.0.9'])] }],
    ['a Service from outside', { services: [service([], ['10.0.0.9'])] }],
  ];
  for (const [who, claim] of claims) {
    it(`are ignored while ${who} has them`, () => {
      assert.deepEqual(ofA(['10.0.0.9', '10.0.0.10']), ['10.0.0.9', '10.0.0.10']);
      assert.deepEqual(counted(addresses.advance(world(claim))).a, ['10.0.0.10']);
      assert.deepEqual(counted(addresses.advance(world())).a, ['10.0.0.9', '10.0.0.10']);
      const claimedFirst = new HostAddresses();
      claimedFirst.advance(world(claim));
      claimedFirst.report('a', ['10.0.0.9']);
      assert.equal(counted(claimedFirst.advance(world(claim))).a, undefined);
    });
  }

  it('count only inside nodeCIDRs', () => {
    addresses = new HostAddresses(['10.0.0.0/24', '2001:db8::/64']);
    addresses.advance(world());
    const reported = ['10.0.0.9', '10.0.1.9', '2001:db8::9', 'fd00::1', '127.0.0.1'];
    assert.deepEqual(ofA(reported), ['10.0.0.9', '2001:db8::9']);
    assert.equal(addresses.usable(reported).outside, 2);
  });

  it('count without nodeCIDRs only if they are private', () => {
    const reported = ['8.8.8.8', '2606:4700::1', '10.0.0.9', '100.64.0.1', 'fd00::1'];
    assert.deepEqual(ofA(reported), ['10.0.0.9', '100.64.0.1', 'fd00::1']);
    assert.equal(addresses.usable(reported).outside, 2);
    const named = new HostAddresses(['8.8.8.0/24']);
    assert.deepEqual(named.usable(reported).usable, ['8.8.8.8']);
  });

  it('are ignored while two Nodes report them', () => {
    addresses.report('a', ['172.17.0.1', '10.0.0.1']);
    addresses.report('b', ['172.17.0.1', '10.0.0.2']);
    assert.deepEqual(counted(addresses.advance(world())), { a: ['10.0.0.1'], b: ['10.0.0.2'] });
    addresses.report('b', ['10.0.0.2']);
    assert.deepEqual(counted(addresses.advance(world())), { a: ['10.0.0.1', '172.17.0.1'], b: ['10.0.0.2'] });
  });

  it('count for the Node whose pod network they are in, whoever else reports them', () => {
    const [a, b] = NODES.map((one, i): Node => ({ ...one, podCIDRs: [`10.244.${i}.0/24`] }));
    const nodes = [a ?? assert.fail(), b ?? assert.fail()];
    addresses.advance(world({ nodes }));
    addresses.report('a', ['10.244.0.1', '172.17.0.1']);
    addresses.report('b', ['10.244.0.1', '10.244.1.1', '172.17.0.1']);
    const expected = { a: ['10.244.0.1'], b: ['10.244.1.1'] };
    assert.deepEqual(counted(addresses.advance(world({ nodes }))), expected);
    assert.deepEqual(counted(addresses.advance(world())), { a: undefined, b: ['10.244.1.1'] });
    assert.deepEqual(counted(addresses.advance(world({ nodes }))), expected);
    addresses.report('a', ['172.17.0.1']);
    assert.deepEqual(counted(addresses.advance(world({ nodes }))), { a: undefined, b: ['10.244.1.1'] });
  });

  it('do not remove an address from the Node that owns it', () => {
    addresses.report('a', ['192.0.2.2']);
    const [, b] = addresses.advance(world()).nodes;
    assert.equal(b, NODES[1]);
    assert.equal(counted(addresses.advance(world())).a, undefined);
  });

  it('are removed with their Node', () => {
    assert.deepEqual(ofA(['10.0.0.9']), ['10.0.0.9']);
    addresses.report('b', ['10.0.0.9']);
    const onlyB = world({ nodes: NODES.slice(1) });
    assert.deepEqual(counted(addresses.advance(onlyB)), { b: ['10.0.0.9'] });
    assert.deepEqual(counted(addresses.advance(world())), { a: undefined, b: ['10.0.0.9'] });
  });

  it('are ignored for a Node that does not exist', () => {
    assert.equal(addresses.report('c', ['10.0.0.9']), false);
    assert.deepEqual(counted(addresses.advance(world({ nodes: [node('c')] }))), { c: undefined });
  });

  it('stay with a Node whose object changes', () => {
    assert.deepEqual(ofA(['10.0.0.9']), ['10.0.0.9']);
    const relabelled = { ...node('a', '192.0.2.1'), labels: { role: 'edge' } };
    const [now] = addresses.advance(world({ nodes: [relabelled] })).nodes;
    assert.deepEqual(now, { ...relabelled, reportedAddresses: ['10.0.0.9'] });
  });

  it('are limited in number, the lowest first', () => {
    const many = Array.from({ length: 100 }, (_, i) => `10.0.0.${i + 1}`);
    const reported = ['fd00::1', ...many.toReversed()];
    assert.equal(addresses.usable(reported).beyond, 101 - MOST_REPORTED);
    addresses.report('a', reported);
    assert.deepEqual(counted(addresses.advance(world())).a, many.slice(0, MOST_REPORTED));
  });

  it('leave other objects unchanged', () => {
    const objects = world({ pods: [pod('p', '10.1.0.1')] });
    assert.equal(addresses.advance(objects), objects);
    assert.equal(addresses.report('a', ['10.0.0.9']), true);
    const now = addresses.advance(objects);
    assert.equal(now.nodes[1], NODES[1]);
    assert.equal(now.pods, objects.pods);
    assert.equal(addresses.report('a', ['10.0.0.9']), false);
    addresses.report('b', ['127.0.0.1', '192.0.2.2']);
    const later = addresses.advance({ ...objects, pods: [...objects.pods, pod('q', '10.1.0.2')] });
    assert.equal(later.nodes, now.nodes);
    addresses.report('a', []);
    assert.equal(addresses.advance(objects), objects);
  });
});
