import assert from 'node:assert/strict';
import { KubeConfig } from '@kubernetes/client-node';
import { ClusterSource } from '../../controller/watch/cluster/cluster-source.ts';
import { type FakeApi, fakeApi } from '../fake/fake-api.ts';
import { until } from '../kernel/until.ts';

const NODES = '/api/v1/nodes';
const NODEWALL = ['clusternetworkpolicies', 'clustergroups', 'tiers'];
const COLLECTIONS = [
  ...[NODES, ...['namespaces', 'pods', 'services'].map((one) => `/api/v1/${one}`)],
  ...['/apis/discovery.k8s.io/v1/endpointslices'],
  ...NODEWALL.map((one) => `/apis/nodewall.io/v1alpha1/${one}`),
];

interface Delivery {
  readonly nodes: readonly string[];
  readonly publish: () => void;
  readonly end: () => void;
}

describe('ClusterSource, where what it delivers takes time to be published', () => {
  let api: FakeApi;
  let source: ClusterSource;
  let deliveries: Delivery[];

  beforeEach(async () => {
    api = await fakeApi();
    for (const collection of COLLECTIONS) api.install(collection);
    const kubeConfig = new KubeConfig();
    const cluster = { name: 'fake', server: api.server, skipTLSVerify: true };
    kubeConfig.loadFromClusterAndUser(cluster, { name: 'user', token: 'secret' });
    source = new ClusterSource({ kubeConfig, quiet: 1, longest: 10 });
    deliveries = [];
    await source.start(({ objects }, publish) => {
      const { promise, resolve: end } = Promise.withResolvers<void>();
      deliveries.push({ nodes: objects.nodes.map(({ name }) => name), publish, end });
      return promise;
    });
  });
  afterEach(async () => {
    for (const { end } of deliveries) end();
    await source.close();
    await api.close();
  });

  const delivered = async (count: number): Promise<Delivery> => {
    await until(`delivery ${count}`, async () => deliveries.length >= count);
    return deliveries[count - 1] ?? assert.fail();
  };
  const put = (name: string): void => {
    const status = { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] };
    api.put(NODES, { metadata: { name }, status });
  };
  const newest = (): number => Math.max(0, ...source.positions().map((one) => one.newest));

  it('claims to have come no further than what is published', async () => {
    const first = await delivered(1);
    first.publish();
    first.end();
    await source.synced;
    const start = newest();
    put('n1');
    const second = await delivered(2);
    assert.deepEqual([second.nodes, newest()], [['n1'], start]);
    second.publish();
    const reached = newest();
    assert.ok(reached > start, 'it is published now');
    second.end();
    await source.prove();
    assert.ok(newest() >= reached);
  });

  it('delivers the next snapshot, with all that came meanwhile, when the last one is published', async () => {
    const first = await delivered(1);
    first.end();
    await source.synced;
    put('n1');
    const second = await delivered(2);
    put('n2');
    put('n3');
    const watched = (): number => source.metrics().find(({ resource }) => resource === 'nodes')?.objects ?? 0;
    await until('the watch has them', async () => watched() === 3);
    assert.equal(deliveries.length, 2);
    second.end();
    assert.deepEqual((await delivered(3)).nodes, ['n1', 'n2', 'n3']);
  });
});
