import assert from 'node:assert/strict';
import { hostname } from 'node:os';
import { NO_OBJECTS } from '../apis/objects.ts';
import { type MachineIdentity, MachineNode, thisHost, undeclaredText } from './machine-node.ts';

const HOST: MachineIdentity = { name: 'web1', arch: 'amd64', addresses: ['192.0.2.10', '2001:db8::10'] };
const declared = (...names: readonly string[]) => ({
  ...NO_OBJECTS,
  nodes: names.map((name) => ({ kind: 'Node', name, labels: {}, addresses: [] }) as const),
});

describe('the Node of this machine', () => {
  it('has the host name, the addresses, and the labels that a kubelet gives', () => {
    assert.deepEqual(new MachineNode({}, () => HOST).with(NO_OBJECTS).nodes, [
      {
        kind: 'Node',
        name: 'web1',
        labels: {
          'kubernetes.io/hostname': 'web1',
          'kubernetes.io/os': 'linux',
          'kubernetes.io/arch': 'amd64',
        },
        addresses: ['192.0.2.10', '2001:db8::10'],
      },
    ]);
  });

  it('is not made where manifests declare any Node', () => {
    for (const objects of [declared('web1'), declared('db1', 'db2')])
      assert.equal(new MachineNode({}, () => HOST).with(objects), objects);
  });

  it('is the same list until an address changes', () => {
    let host = HOST;
    const machine = new MachineNode({}, () => host);
    const first = machine.with(NO_OBJECTS).nodes;
    host = { ...HOST, addresses: [...HOST.addresses] };
    assert.equal(machine.with(declared()).nodes, first);
    host = { ...HOST, name: 'renamed', addresses: ['192.0.2.11'] };
    const [node] = machine.with(NO_OBJECTS).nodes;
    assert.deepEqual([node?.name, node?.addresses], ['web1', ['192.0.2.11']]);
  });

  it('counts the addresses that nodeCIDRs count, as in a manifest', () => {
    const machine = new MachineNode({ nodeCIDRs: ['192.0.2.0/24'] }, () => HOST);
    assert.deepEqual(machine.with(NO_OBJECTS).nodes[0]?.addresses, ['192.0.2.10']);
  });

  it('has a label for the host name only where that can be one', () => {
    const name = `${'a'.repeat(60)}.example.com`;
    const [node] = new MachineNode({}, () => ({ ...HOST, name })).with(NO_OBJECTS).nodes;
    assert.equal(node?.name, name);
    assert.equal(node.labels['kubernetes.io/hostname'], undefined);
  });

  it('is refused for a host name that no Node can have', () => {
    assert.throws(
      () => new MachineNode({}, () => ({ ...HOST, name: 'my_server' })),
      /host name cannot be the name of a Node: "my_server" is not a valid name/,
    );
  });

  it('is described with its addresses', () => {
    const text = (host: MachineIdentity) => new MachineNode({}, () => host).text(NO_OBJECTS);
    assert.equal(
      text(HOST),
      'no manifest declares a Node: judged for this machine, web1 (192.0.2.10, 2001:db8::10)',
    );
    assert.match(text({ ...HOST, addresses: [] }), /web1 \(no address\)$/);
  });
});

describe('the machine', () => {
  it('is this one', () => {
    const { name, addresses } = thisHost();
    assert.equal(name, hostname().toLowerCase());
    assert.equal(addresses.includes('127.0.0.1'), false);
  });

  it('is named beside the first ten Nodes that are declared', () => {
    assert.equal(
      undeclaredText('web1', declared('b', 'a')),
      'the manifests declare a, b, and none is this machine, web1',
    );
    const many = declared(...Array.from({ length: 12 }, (_, i) => `n${String(i).padStart(2, '0')}`));
    assert.match(undeclaredText('web1', many), /n09 and 2 more, and none/);
  });
});
