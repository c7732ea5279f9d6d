import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { KubeApiClient } from '../../../controller/kubeapi/kube-api.ts';
import { apiAs, removeAll } from '../../cluster/admin-api.ts';
import { createAuthority } from '../../cluster/certificates.ts';
import type { TestCluster } from '../../cluster/cluster.ts';
import { until } from '../../kernel/until.ts';
import { apiServer } from '../labs.ts';

const NODE = (name: string) => `{apiVersion: v1, kind: Node, metadata: {name: ${name}}}`;
const ACCOUNT = `
apiVersion: v1
kind: Namespace
metadata: {name: system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: agent, namespace: system}
`;
const CRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.test.nodewall.io}
spec:
  group: test.nodewall.io
  scope: Cluster
  names: {kind: Widget, plural: widgets}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              x-kubernetes-validations:
                - {rule: self.least <= self.most, message: least must not be above most}
              properties: {least: {type: integer}, most: {type: integer}}
`;
const widget = (least: number) =>
  `{apiVersion: test.nodewall.io/v1, kind: Widget, metadata: {name: w}, spec: {least: ${least}, most: 5}}`;

interface TokenReview {
  readonly status: {
    readonly authenticated?: boolean;
    readonly error?: string;
    readonly user?: { readonly username: string; readonly extra: Record<string, string[]> };
  };
}

describe('a cluster for tests', function () {
  this.timeout(120_000);
  const begun = apiServer.use();
  let cluster: TestCluster;
  let api: KubeApiClient;
  before(async () => {
    cluster = begun();
    api = apiAs(cluster);
    await cluster.apply(ACCOUNT);
  });
  after(async () => {
    api?.close();
    await removeAll(cluster, 'nodes', 'customresourcedefinitions');
  });

  it('creates objects and returns them', async () => {
    await cluster.apply(NODE('cp-1'));
    assert.equal((await cluster.kubectl(['label', 'node', 'cp-1', 'role=edge'])).code, 0);
    const { metadata } = await cluster.get<{ metadata: { labels: object } }>('node', 'cp-1');
    assert.deepEqual(metadata.labels, { role: 'edge' });
    const missing = await cluster.kubectl(['get', 'node', 'cp-2']);
    assert.equal(missing.code, 1);
    assert.match(missing.stderr, /^Error from server \(NotFound\): nodes "cp-2" not found\n$/);
    await assert.rejects(cluster.get('node', 'cp-2'), /get node cp-2: .*NotFound/);
  });

  it('enforces the CEL rules of a definition', async () => {
    await cluster.apply(CRD);
    await cluster.kubectl(['wait', '--for=condition=Established', 'crd/widgets.test.nodewall.io']);
    const apply = (least: number) => cluster.kubectl(['apply', '-f', '-'], { stdin: widget(least) });
    await until('the kind is served', async () => (await apply(1)).code === 0);
    const refused = await apply(9);
    assert.notEqual(refused.code, 0);
    assert.match(refused.stderr, /least must not be above most/);
  });

  it('issues tokens that are bound to a node, and end with it', async () => {
    await cluster.apply(NODE('worker-1'));
    const audiences = ['nodewall-controller'];
    const token = await cluster.token('system/agent', { boundNode: 'worker-1', audiences });
    const { user } = (await review(token, audiences)).status;
    assert.equal(user?.username, 'system:serviceaccount:system:agent');
    assert.deepEqual(user?.extra['authentication.kubernetes.io/node-name'], ['worker-1']);
    assert.equal((await review(token, ['others'])).status.authenticated, undefined);
    await cluster.kubectl(['delete', 'node', 'worker-1']);
    await until(
      'the token is revoked',
      async () => (await review(token, audiences)).status.authenticated !== true,
      { limit: 30_000 },
    );
  });

  it('issues tokens that expire soon', async () => {
    // The API server takes them for another minute.
    const token = await cluster.token('system/agent', { seconds: -50 });
    assert.equal((await review(token)).status.authenticated, true);
    await until('it expires', async () => (await review(token)).status.authenticated !== true, {
      limit: 30_000,
    });
    assert.match((await review(token)).status.error ?? '', /expired/);
  });

  it('gives a service account exactly the rights of RBAC', async () => {
    const token = await cluster.token('system/agent');
    const kubeconfig = await cluster.kubeconfigFor('agent', { token });
    const get = () => cluster.kubectl(['get', 'nodes'], { kubeconfig });
    const forbidden = await get();
    assert.match(forbidden.stderr, /Forbidden.*system:serviceaccount:system:agent/);
    await cluster.kubectl(['create', 'clusterrole', 'reader', '--verb=list', '--resource=nodes']);
    const account = '--serviceaccount=system:agent';
    await cluster.kubectl(['create', 'clusterrolebinding', 'reader', '--clusterrole=reader', account]);
    await until('it may list nodes', async () => (await get()).code === 0);
  });

  it('keeps objects while the API server and etcd are stopped, killed and started', async () => {
    await cluster.apply(NODE('kept'));
    const { metadata } = await cluster.get<{ metadata: { uid: string } }>('node', 'kept');
    const check = async () =>
      assert.equal(
        (await cluster.get<{ metadata: { uid: string } }>('node', 'kept')).metadata.uid,
        metadata.uid,
      );
    await cluster.stopApiServer();
    assert.match((await cluster.kubectl(['get', 'nodes'])).stderr, /refused/);
    await cluster.startApiServer();
    await check();
    await cluster.restartApiServer('SIGKILL');
    await check();
    await cluster.stopEtcd();
    assert.notEqual((await cluster.kubectl(['get', 'node', 'kept', '--request-timeout=2s'])).code, 0);
    await cluster.startEtcd();
    await check();
  });

  it('forwards an API group to an extension server, with the user', async () => {
    const authority = await createAuthority('extension');
    const names = ['extension.system.svc'];
    const certificate = await authority.issue({ commonName: 'extension', names, usage: 'server' });
    const { data } = await cluster.get<{ data: Record<string, string> }>(
      ...['configmap', 'extension-apiserver-authentication', '--namespace=kube-system'],
    );
    const server = extension(certificate, data['requestheader-client-ca-file'] ?? '');
    try {
      await once(server.listen(0, '127.0.0.1'), 'listening');
      await cluster.apply(apiService((server.address() as AddressInfo).port, authority.certificate));
      const group = '/apis/extension.test.nodewall.io/v1';
      let answer = '';
      await until('the group is served', async () => {
        const { code, stdout } = await cluster.kubectl(['get', '--raw', `${group}/whoami`]);
        answer = stdout;
        return code === 0;
      });
      const expected = { url: `${group}/whoami`, proxy: 'front-proxy-client', user: 'admin' };
      assert.deepEqual(JSON.parse(answer), { ...expected, groups: 'system:masters, system:authenticated' });
    } finally {
      server.close();
      server.closeAllConnections();
      await cluster.kubectl(['delete', 'apiservice', 'v1.extension.test.nodewall.io']);
    }
  });

  async function review(token: string, audiences: readonly string[] = []): Promise<TokenReview> {
    const request = {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenReview',
      spec: { token, audiences },
    };
    const path = '/apis/authentication.k8s.io/v1/tokenreviews';
    return await api.request<TokenReview>({ method: 'POST', path, body: request });
  }
});

/** Says who asks, to whoever has a certificate of the front proxy's authority. */
function extension({ certificate, key }: { certificate: string; key: string }, ca: string): Server {
  const options = { cert: certificate, key, ca, requestCert: true, rejectUnauthorized: true };
  return createServer(options, (request, response) => {
    const { headers, url } = request;
    const proxy = (request.socket as TLSSocket).getPeerCertificate().subject.CN;
    const answer = { url, proxy, user: headers['x-remote-user'], groups: headers['x-remote-group'] };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  });
}

function apiService(port: number, ca: string): string {
  const [name, namespace] = ['extension', 'system'];
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace },
    spec: { type: 'ExternalName', externalName: 'localhost', ports: [{ port }] },
  };
  const api = {
    apiVersion: 'apiregistration.k8s.io/v1',
    kind: 'APIService',
    metadata: { name: 'v1.extension.test.nodewall.io' },
    spec: {
      group: 'extension.test.nodewall.io',
      version: 'v1',
      groupPriorityMinimum: 1000,
      versionPriority: 15,
      service: { name, namespace, port },
      caBundle: Buffer.from(ca).toString('base64'),
    },
  };
  return [service, api].map((object) => JSON.stringify(object)).join('\n---\n');
}
