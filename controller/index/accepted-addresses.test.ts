import assert from 'node:assert/strict';
import fc from 'fast-check';
import { type ClusterObjects, NO_OBJECTS, type Node, type Pod, type Service } from '../../apis/objects.ts';
import { AcceptedAddresses, withAcceptedAddresses } from './accepted-addresses.ts';

const POD = '10.244.0.5';
const IPV6_POD = 'fd00:244::5';
const NETWORKS = ['10.244.0.0/24', 'fd00:244::/64'];

function node(name: string, addresses: readonly string[], podCIDRs: readonly string[] = []): Node {
  return { kind: 'Node', name, labels: {}, addresses, ...(podCIDRs.length === 0 ? {} : { podCIDRs }) };
}
function pod(name: string, addresses: readonly string[]): Pod {
  return { kind: 'Pod', namespace: 'shop', name, labels: {}, serviceAccount: 'default', addresses };
}
function service(clusterIPs: readonly string[], externalAddresses: readonly string[] = []): Service {
  const names = { kind: 'Service', namespace: 'shop', name: 'web' } as const;
  return { ...names, selector: null, clusterIPs, externalAddresses, ports: [] };
}
function world(changes: Partial<ClusterObjects>): ClusterObjects {
  return { ...NO_OBJECTS, ...changes };
}
function accepted({ nodes }: ClusterObjects): Record<string, readonly string[]> {
  return Object.fromEntries(nodes.map(({ name, addresses }) => [name, addresses]));
}

describe('the addresses of Node objects', () => {
  it('do not count where a pod has them, in both families, and the holder is named', () => {
    const nodes = [node('n1', ['10.0.0.1']), node('n2', ['10.0.0.2', POD, IPV6_POD])];
    const found = withAcceptedAddresses(world({ nodes, pods: [pod('web', [POD, IPV6_POD])] }));
    assert.deepEqual(accepted(found), { n1: ['10.0.0.1'], n2: ['10.0.0.2'] });
    assert.equal(found.nodes[0], nodes[0], 'an unchanged Node is the same object');
    assert.deepEqual(found.nodes[1]?.claimedAddresses, [
      `${POD} (Pod shop/web)`,
      `${IPV6_POD} (Pod shop/web)`,
    ]);
  });

  it('do not count where a pod has them from an IP pool, or from podCIDRs of the configuration', () => {
    const pooled = ['192.168.5.5', 'fd00:168::5'];
    const nodes = [node('n1', ['10.0.0.1'], NETWORKS), node('evil', ['10.0.0.2', ...pooled])];
    const objects = world({ nodes, pods: [pod('web', pooled)] });
    assert.deepEqual(
      accepted(withAcceptedAddresses(objects)).evil,
      ['10.0.0.2', ...pooled],
      'of no pod network',
    );
    const cidrs = ['192.168.0.0/16', 'fd00:168::/48'];
    const configured = withAcceptedAddresses(objects, { podCIDRs: cidrs });
    assert.deepEqual(accepted(configured).evil, ['10.0.0.2']);
    const accepts = new AcceptedAddresses();
    accepts.advance(objects);
    const insideNetworks = [{ kind: 'IPPool', name: 'default', cidrs } as const];
    assert.deepEqual(accepted(accepts.advance({ ...objects, insideNetworks })).evil, ['10.0.0.2']);
    assert.deepEqual(accepted(accepts.advance(objects)).evil, ['10.0.0.2', ...pooled]);
  });

  it('do not count in the pod network of another Node, also before a pod has them', () => {
    const nodes = [node('n1', ['10.0.0.1', '10.244.0.1'], NETWORKS), node('n2', ['10.0.0.2', POD, IPV6_POD])];
    const found = withAcceptedAddresses(world({ nodes }));
    assert.deepEqual(accepted(found), { n1: ['10.0.0.1', '10.244.0.1'], n2: ['10.0.0.2'] });
    assert.match(found.nodes[1]?.claimedAddresses?.[0] ?? '', /the pod network of Node n1/);
  });

  it('do not count where a Service has them as cluster IP; external IPs are often those of Nodes', () => {
    const nodes = [node('n1', ['10.0.0.1', '10.96.0.1', '10.0.0.9'])];
    const found = withAcceptedAddresses(world({ nodes, services: [service(['10.96.0.1'], ['10.0.0.9'])] }));
    assert.deepEqual(accepted(found), { n1: ['10.0.0.1', '10.0.0.9'] });
  });

  it('count where a kubelet gives them to a pod of its own outside of the pod networks', () => {
    const nodes = [node('n1', ['10.0.0.1'], NETWORKS), node('n2', ['10.0.0.2'])];
    const objects = world({ nodes, pods: [pod('liar', ['10.0.0.1'])] });
    assert.equal(withAcceptedAddresses(objects), objects);
  });

  it('count in a pod network that is too wide to be one', () => {
    const nodes = [node('n1', ['10.0.0.1']), node('liar', ['10.0.0.2'], ['0.0.0.0/0', '::/0'])];
    const objects = world({ nodes, pods: [pod('web', [POD])] });
    assert.equal(withAcceptedAddresses(objects), objects);
  });

  it('all count where nodeCIDRs decides', () => {
    const objects = world({ nodes: [node('n2', [POD])], pods: [pod('web', [POD])] });
    assert.equal(withAcceptedAddresses(objects, { nodeCIDRs: ['10.0.0.0/8'] }), objects);
  });

  it('are no ends of tunnels either', () => {
    const nodes = [{ ...node('n2', ['10.0.0.2', POD]), internalAddresses: [POD, '10.0.0.2'] }];
    const [found] = withAcceptedAddresses(world({ nodes, pods: [pod('web', [POD])] })).nodes;
    assert.deepEqual(found?.internalAddresses, ['10.0.0.2']);
  });

  it('are the same after any history', () => {
    const address = fc.constantFrom('10.0.0.1', '10.0.0.2', POD, '10.244.1.5', IPV6_POD);
    const some = fc.uniqueArray(address, { maxLength: 3 });
    const networks = fc.uniqueArray(fc.constantFrom(...NETWORKS, '10.244.1.0/24', '10.0.0.0/8'), {
      maxLength: 2,
    });
    const list = <T>(one: (name: string) => fc.Arbitrary<T | null>) =>
      fc
        .tuple(...['a', 'b', 'c'].map(one))
        .map((all) => all.filter((item): item is Awaited<T> & T => item !== null));
    const objects = fc.record({
      nodes: list((name) =>
        fc.option(fc.tuple(some, networks).map(([own, cidrs]) => node(name, own, cidrs))),
      ),
      pods: list((name) => fc.option(some.map((own) => pod(name, own)))),
      services: fc.array(
        some.map((own) => service(own)),
        { maxLength: 1 },
      ),
    });
    const history = fc.array(fc.tuple(objects, fc.constantFrom('nodes', 'pods', 'services', null)), {
      minLength: 2,
      maxLength: 8,
    });
    fc.assert(
      fc.property(history, (steps) => {
        const accepts = new AcceptedAddresses();
        let now = world({});
        for (const [next, only] of steps) {
          now = only === null ? world(next) : { ...now, [only]: next[only] };
          assert.deepEqual(accepts.advance(now).nodes, withAcceptedAddresses(now).nodes);
          assert.equal(accepts.advance(now).nodes, accepts.advance(now).nodes);
        }
      }),
      { numRuns: 500 },
    );
  });
});
