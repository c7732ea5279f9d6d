import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import type { ClusterObjects } from '../../../apis/objects.ts';
import { ClusterSource } from '../../../controller/watch/cluster/cluster-source.ts';
import type { WatchNotice } from '../../../controller/watch/cluster/watch-failures.ts';
import type { Snapshot } from '../../../controller/watch/source.ts';
import { removeAll } from '../../cluster/admin-api.ts';
import { createAuthority } from '../../cluster/certificates.ts';
import type { TestCluster } from '../../cluster/cluster.ts';
import { lineProxy } from '../../faults/line-proxy.ts';
import { until } from '../../kernel/until.ts';
import { apiServer } from '../labs.ts';

const ROOT = join(import.meta.dirname, '../../..');
const CRDS = ['tier', 'clustergroup', 'clusternetworkpolicy'];
const POLICY = (name: string, priority: number, api = 'nodewall.io/v1alpha1') =>
  `{apiVersion: ${api}, kind: ClusterNetworkPolicy, metadata: {name: ${name}}, spec: {priority: ${priority}, appliedTo: [{nodeSelector: {}}]}}`;
const NODE = (name: string, role = 'none') =>
  `{apiVersion: v1, kind: Node, metadata: {name: ${name}, labels: {role: ${role}}}}`;
const POD = (name: string) => `
apiVersion: v1
kind: Pod
metadata: {name: ${name}, namespace: default}
spec: {nodeName: cp-1, terminationGracePeriodSeconds: 0, containers: [{name: c, image: i}]}
`;
const SERVICE = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {clusterIP: 10.96.0.77, selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.0.0.7]}]
`;
/** As Antrea's is to nodewall: of another group, here today and gone tomorrow. */
const ANTREA = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusternetworkpolicies.crd.antrea.io}
spec:
  group: crd.antrea.io
  scope: Cluster
  names: {kind: ClusterNetworkPolicy, plural: clusternetworkpolicies}
  versions:
    - name: v1beta1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`;

/** Of a cluster without Nodes and CRDs. */
describe('the watch of a real API server', function () {
  this.timeout(120_000);
  const begun = apiServer.use();
  let cluster: TestCluster;
  let source: ClusterSource;
  let latest: Snapshot | null = null;
  const notices: WatchNotice[] = [];

  before(async () => {
    cluster = begun();
    for (const name of CRDS)
      await cluster.apply(await readFile(join(ROOT, `deploy/crds/${name}.yaml`), 'utf8'));
    await cluster.established();
    await cluster.apply(NODE('cp-1'));
    const kubeConfig = new KubeConfig();
    kubeConfig.loadFromFile(cluster.kubeconfig);
    source = new ClusterSource({
      kubeConfig,
      onNotice: (notice) => notices.push(notice),
      times: { absent: 500, relist: [2_000, 3_000], overlap: 5_000 },
    });
    await source.start((snapshot) => {
      latest = snapshot;
    });
    await source.synced;
  });
  after(async () => {
    await source?.close();
    await removeAll(cluster, 'nodes', 'customresourcedefinitions');
  });

  const seen = async (what: string, isSo: (objects: ClusterObjects) => boolean, limit = 15_000) => {
    await until(what, async () => latest !== null && isSo(latest.objects), {
      limit,
      detail: () => JSON.stringify({ latest, notices, metrics: source.metrics() }, null, 1),
    });
  };
  const policies = ({ policies: list }: ClusterObjects): string =>
    list.map(({ name, spec }) => `${name}=${spec.priority}`).join(' ');

  it('lists over TLS, with the kubeconfig as it is', () => {
    assert.equal(latest?.complete, true);
    assert.deepEqual(latest?.problems, []);
    assert.equal(latest?.objects.nodes[0]?.name, 'cp-1');
    assert.ok(latest?.objects.namespaces.some(({ name }) => name === 'kube-system'));
  });

  it('reports every change, of every kind', async () => {
    await cluster.apply(NODE('cp-1', 'edge'));
    await seen('the label', ({ nodes }) => nodes[0]?.labels.role === 'edge');
    await cluster.apply(POD('p1'));
    await seen('the pod', ({ pods }) => pods[0]?.name === 'p1');
    const patch = '{"status":{"phase":"Running","podIP":"10.0.0.7","podIPs":[{"ip":"10.0.0.7"}]}}';
    await cluster.kubectl(['patch', 'pod', 'p1', '--subresource=status', '--type=merge', '-p', patch]);
    await seen('its address', ({ pods }) => pods[0]?.addresses[0] === '10.0.0.7');
    await cluster.apply(SERVICE);
    await seen('the service', ({ services }) =>
      services.some(({ clusterIPs }) => clusterIPs[0] === '10.96.0.77'),
    );
    await seen('its endpoints', ({ endpointSlices }) =>
      endpointSlices.some(({ service }) => service === 'web'),
    );
    await cluster.apply(POLICY('one', 5));
    await seen('the policy', (objects) => policies(objects) === 'one=5');
    assert.ok(latest?.objects.policies[0]?.uid);
    await cluster.apply(POLICY('one', 6));
    await seen('its edit', (objects) => policies(objects) === 'one=6');
    assert.equal(latest?.objects.policies[0]?.generation, 2);
    const finished = '{"status":{"phase":"Succeeded"}}';
    await cluster.kubectl(['patch', 'pod', 'p1', '--subresource=status', '--type=merge', '-p', finished]);
    await seen('the finished pod gone', ({ pods }) => pods.length === 0);
    await cluster.kubectl(['delete', 'clusternetworkpolicies.nodewall.io', 'one']);
    await seen('the policy gone', (objects) => policies(objects) === '');
  });

  it('notices CRDs that are added and removed', async () => {
    await cluster.apply(ANTREA);
    await cluster.kubectl([
      'wait',
      '--for=condition=Established',
      'crd/clusternetworkpolicies.crd.antrea.io',
    ]);
    const theirs = POLICY('theirs', 7, 'crd.antrea.io/v1beta1');
    await until('their kind is served', async () => {
      return (await cluster.kubectl(['apply', '-f', '-'], { stdin: theirs })).code === 0;
    });
    await seen('their policy', (objects) => policies(objects) === 'theirs=7');
    await cluster.kubectl(['delete', 'crd', 'clusternetworkpolicies.crd.antrea.io']);
    await seen('their policy gone', (objects) => policies(objects) === '');
    await until('the absence told', async () =>
      source
        .metrics()
        .some(
          ({ resource, state }) => resource === 'clusternetworkpolicies.crd.antrea.io' && state === 'absent',
        ),
    );
  });

  it('continues after the API server and etcd were killed', async () => {
    await cluster.apply(POLICY('two', 5));
    await seen('the policy', (objects) => policies(objects) === 'two=5');
    await cluster.stopApiServer('SIGKILL');
    // So long away that waits have become as long as they get.
    await until('many tries', async () => notices.some((one) => one.event === 'failed' && one.failures >= 8));
    await cluster.startApiServer();
    await cluster.apply(POLICY('two', 6));
    await seen('the edit', (objects) => policies(objects) === 'two=6');
    await cluster.stopEtcd('SIGKILL');
    await cluster.startEtcd();
    await cluster.kubectl(['delete', 'clusternetworkpolicies.nodewall.io', 'two']);
    await cluster.apply(NODE('cp-2'));
    await seen('the policy gone', (objects) => policies(objects) === '', 60_000);
    await seen('the new node', ({ nodes }) => nodes.length === 2, 60_000);
  });

  it('missed no change, compared with lists', async () => {
    const lists = () => source.metrics().map(({ lists: count }) => count);
    const before = lists();
    await until(
      'another list of each',
      async () => {
        const now = lists();
        return source
          .metrics()
          .every(({ state }, i) => state === 'absent' || (now[i] ?? 0) > (before[i] ?? 0));
      },
      { limit: 60_000 },
    );
    for (const { corrections } of source.metrics()) assert.equal(corrections, 0);
  });

  it("reaches the API server's state behind a proxy with all faults", async () => {
    const authority = await createAuthority('proxy authority');
    const issued = await authority.issue({ commonName: 'p', names: ['127.0.0.1'], usage: 'server' });
    const faults = {
      delay: [0, 20],
      duplicate: 0.1,
      drop: 0.05,
      swap: 0.1,
      garble: 0.1,
      truncate: 0.02,
      end: 0.02,
    } as const;
    const to = { target: cluster.server, targetCa: cluster.ca };
    const proxy = await lineProxy({ ...to, ...issued, seed: 'watch', faults });
    const kubeConfig = new KubeConfig();
    const caData = Buffer.from(authority.certificate).toString('base64');
    const server = `https://127.0.0.1:${proxy.port}`;
    kubeConfig.loadFromClusterAndUser(
      { name: 'proxied', server, caData, skipTLSVerify: false },
      { name: 'admin', token: cluster.adminToken },
    );
    const proxied = new ClusterSource({
      kubeConfig,
      times: { idle: 3_000, longestWait: 200, relist: [2_000, 4_000], overlap: 1_000 },
    });
    try {
      let found: Snapshot | null = null;
      await proxied.start((snapshot) => {
        found = snapshot;
      });
      await proxied.synced;
      for (let round = 0; round < 30; round++) {
        const name = `n${round % 5}`;
        await cluster.apply([NODE(name, `r${round}`), POLICY(`p${round % 3}`, 1 + round)].join('\n---\n'));
        if (round % 4 === 3) await cluster.kubectl(['delete', 'node', name]);
        if (round % 5 === 0)
          await proxy.cutAll((['end', 'reset', 'silence'] as const)[(round / 5) % 3] ?? 'end');
      }
      await proxy.set({});
      const text = (objects: ClusterObjects | undefined): string =>
        JSON.stringify([objects?.nodes, objects?.policies, objects?.namespaces]);
      // The first source has seen all of it undisturbed.
      const last = await cluster.get<{ metadata: { name: string; generation: number } }>(
        'clusternetworkpolicies.nodewall.io',
        'p2',
      );
      await seen('the last edit', ({ policies: list }) =>
        list.some(({ name, generation }) => name === 'p2' && generation === last.metadata.generation),
      );
      await until('the same objects', async () => text(found?.objects) === text(latest?.objects), {
        limit: 60_000,
        detail: () => JSON.stringify([found?.objects, latest?.objects, proxied.metrics()]),
      });
      const counts = await proxy.counts();
      const happened = ['duplicate', 'swap', 'garble'].filter((what) => counts[what]);
      assert.equal(happened.length, 3, JSON.stringify(counts));
    } finally {
      await proxied.close();
      await proxy.close();
    }
  });
});
