import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type ClusterOfNodes, startClusterOfNodes } from '../cluster/cluster-of-nodes.ts';
import { startKubeProxy } from '../cluster/kube-proxy.ts';
import { kernelSuite } from '../kernel/kernel-suite.ts';
import { until } from '../kernel/until.ts';
import type { Namespace } from '../netns/namespace.ts';
import { nodePortService } from './nodeport-service.ts';

const PORT = 8080;
const CLUSTER_IP = '10.96.0.77';
const NODE_PORT = 30_080;

kernelSuite('kube-proxy beside a cluster in namespaces', function () {
  this.timeout(120_000);
  let bed: ClusterOfNodes;
  before(async () => {
    bed = await startClusterOfNodes({ nodes: { 'worker-1': { role: 'edge' } }, others: 1 });
  });
  after(() => bed?.close());

  it('uses Nodes as kubelets report them', async () => {
    const { v4, v6 } = bed.machine('worker-1');
    const { metadata, status } = await bed.cluster.get<NodeObject>('node', 'worker-1');
    assert.deepEqual(metadata.labels, { 'kubernetes.io/hostname': 'worker-1', role: 'edge' });
    const addresses = [v4, v6].map((address) => ({ type: 'InternalIP', address }));
    assert.deepEqual(status.addresses, addresses);
  });

  it('makes Services reachable, and follows their changes', async () => {
    const { cluster } = bed;
    const { namespace: first, v4: worker } = bed.machine('worker-1');
    const { namespace: second, v4: backend } = bed.machine('other0');
    const service = nodePortService({ clusterIP: CLUSTER_IP, port: PORT, nodePort: NODE_PORT, backend });
    await cluster.apply(service.map((object) => JSON.stringify(object)).join('\n---\n'));
    const server = second.spawn([process.execPath, '-e', SERVER]);
    await once(server.stdout, 'data');
    assert.equal(await answer(first, CLUSTER_IP, PORT), '');
    const proxy = await startKubeProxy({ cluster, namespace: first, node: 'worker-1' });
    const expected = 'hello\n';
    await until('the Service answers', async () => (await answer(first, CLUSTER_IP, PORT)) === expected, {
      limit: 30_000,
    });
    assert.equal(await answer(second, worker, NODE_PORT), expected);
    const emptied = await cluster.kubectl(['delete', 'endpointslice', 'hello']);
    assert.equal(emptied.code, 0, emptied.stderr);
    await until('it no longer does', async () => (await answer(first, CLUSTER_IP, PORT)) === '', {
      limit: 30_000,
    });
    await proxy.stop();
    const { stdout } = await first.run(['nft', 'list', 'tables']);
    assert.match(stdout, /table ip kube-proxy/);
  });
});

interface NodeObject {
  readonly metadata: { readonly labels: object };
  readonly status: { readonly addresses: readonly object[] };
}

const SERVER = `require('net').createServer((s) => s.on('error', () => {}).end('hello\\n'))
  .listen(${PORT}, () => console.log('ready'))`;

/** What a server says; nothing where there is no connection within two seconds. */
async function answer(from: Namespace, address: string, port: number): Promise<string> {
  const script = `require('net').connect(${port}, '${address}').on('error', () => {}).pipe(process.stdout)
    setTimeout(() => process.exit(), 2000).unref()`;
  const { stdout } = await from.run(['timeout', '2', process.execPath, '-e', script], { anyStatus: true });
  return stdout;
}
