import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { KubeConfig } from '@kubernetes/client-node';
import { type FakeApi, fakeApi } from '../../../test/fake/fake-api.ts';
import type { Snapshot } from '../source.ts';
import { ClusterSource } from './cluster-source.ts';
import { Freshness } from './freshness.ts';

describe('Freshness', () => {
  it('is proven when every watch has proven itself since the last begin', async () => {
    const open: PromiseWithResolvers<void>[] = [];
    const prove = (): Promise<void> => {
      const one = Promise.withResolvers<void>();
      open.push(one);
      return one.promise;
    };
    let proven = 0;
    const freshness = new Freshness(
      () => [{ prove }, { prove }],
      () => proven++,
    );
    freshness.begin();
    freshness.begin();
    assert.equal(open.length, 2);
    open[0]?.resolve();
    await turn();
    assert.equal(freshness.isProven, false);
    // Another term: the first proof no longer counts.
    freshness.end();
    freshness.begin();
    open[1]?.resolve();
    await turn();
    assert.deepEqual([freshness.isProven, proven], [false, 0]);
    for (const one of open) one.resolve();
    await turn();
    assert.deepEqual([freshness.isProven, proven], [true, 1]);
    freshness.end();
    assert.equal(freshness.isProven, false);
    freshness.begin();
    for (const one of open.slice(4)) one.reject(new Error('closed'));
    await turn();
    assert.equal(freshness.isProven, false);
  });
});

const BUILT_IN = ['nodes', 'namespaces', 'pods', 'services'].map((name) => `/api/v1/${name}`);
const SLICES = '/apis/discovery.k8s.io/v1/endpointslices';
const [NODES = ''] = BUILT_IN;
const node = (name: string) => ({
  metadata: { name },
  status: { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] },
});

/** A delivery that ends when the test says so. */
interface Delivery {
  readonly nodes: string;
  readonly publishes: () => void;
  readonly end: () => void;
}

describe('flush of a ClusterSource', () => {
  let api: FakeApi;
  let source: ClusterSource;
  let deliveries: Delivery[];
  let ends: (() => void)[];
  let arrived: () => void;

  beforeEach(async () => {
    api = await fakeApi();
    for (const collection of [...BUILT_IN, SLICES]) api.install(collection);
    const kubeConfig = new KubeConfig();
    const cluster = { name: 'fake', server: api.server, skipTLSVerify: true };
    kubeConfig.loadFromClusterAndUser(cluster, { name: 'user', token: 'secret' });
    deliveries = [];
    ends = [];
    arrived = () => {};
    source = new ClusterSource({ kubeConfig, quiet: 1, longest: 10 });
    void source.start(({ objects }: Snapshot, publishes) => {
      const { promise, resolve: end } = Promise.withResolvers<void>();
      deliveries.push({ nodes: objects.nodes.map(({ name }) => name).join(' '), publishes, end });
      ends.push(end);
      arrived();
      return promise;
    });
  });
  afterEach(async () => {
    for (const end of ends) end();
    await source.close();
    await api.close();
  });

  async function delivery(): Promise<Delivery> {
    while (deliveries.length === 0) await new Promise<void>((resolve) => (arrived = resolve));
    return deliveries.shift() ?? assert.fail();
  }

  /** Whether flush has ended, with all that it does without waiting for others. */
  async function flushing(): Promise<{ readonly isOver: () => boolean; readonly over: Promise<void> }> {
    let isOver = false;
    const over = source.flush().then(() => {
      isOver = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    return { isOver: () => isOver, over };
  }

  it('waits while the last snapshot is not published, and no longer', async () => {
    const first = await delivery();
    const early = await flushing();
    assert.equal(early.isOver(), false);
    first.end();
    await early.over;
    api.put(NODES, node('n1'));
    const { nodes, publishes, end } = await delivery();
    assert.equal(nodes, 'n1');
    const late = await flushing();
    assert.equal(late.isOver(), false);
    publishes();
    await late.over;
    assert.equal((await flushing()).isOver(), true);
    end();
  });
});
