import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { get } from 'node:https';
import { createInterface } from 'node:readline';
import { removeAll } from '../../cluster/admin-api.ts';
import { createAuthority } from '../../cluster/certificates.ts';
import type { TestCluster } from '../../cluster/cluster.ts';
import { lineProxy } from '../../faults/line-proxy.ts';
import { tcpProxy } from '../../faults/tcp-proxy.ts';
import { apiServer } from '../labs.ts';

const WATCH = '/api/v1/nodes?watch=true&fieldSelector=metadata.name%3Da';
const LIMIT = { agent: false, timeout: 30_000 };

describe('proxies before a real API server', function () {
  this.timeout(120_000);
  const begun = apiServer.use();
  let cluster: TestCluster;
  before(async () => {
    cluster = begun();
    await cluster.apply('{apiVersion: v1, kind: Node, metadata: {name: a}}');
  });
  after(() => removeAll(cluster, 'nodes'));

  async function watch(port: number, ca: string): Promise<IncomingMessage> {
    const headers = { authorization: `Bearer ${cluster.adminToken}` };
    const asked = get(`https://127.0.0.1:${port}${WATCH}`, { ca, headers, ...LIMIT });
    const [response] = await once(asked, 'response');
    // What cuts the answer is the request's error too.
    asked.on('error', () => {});
    assert.equal(response.statusCode, 200);
    return response;
  }

  it('forward TLS unchanged, and cut it', async () => {
    const { hostname, port } = new URL(cluster.server);
    const target = { targetHost: hostname, targetPort: Number(port) };
    const proxy = await tcpProxy({ ...target, seed: 'tls', faults: { delay: [0, 3] } });
    try {
      const server = `https://127.0.0.1:${proxy.port}`;
      const kubeconfig = await cluster.kubeconfigFor('proxied', { token: cluster.adminToken, server });
      const { stdout } = await cluster.kubectl(['get', 'nodes', '-o', 'name'], { kubeconfig });
      assert.equal(stdout, 'node/a\n');
      const response = await watch(proxy.port, cluster.ca);
      assert.match(String(await once(response, 'data')), /"type":"ADDED"/);
      const error = once(response, 'error');
      await proxy.cutAll('reset');
      assert.equal((await error)[0].code, 'ECONNRESET');
      await proxy.set({ refuse: 1 });
      const refused = await cluster.kubectl(['get', '--raw=/readyz'], { kubeconfig });
      assert.notEqual(refused.code, 0);
    } finally {
      await proxy.close();
    }
  });

  it('read a watch, and double its events', async () => {
    const authority = await createAuthority('proxy authority');
    const { certificate, key } = await authority.issue({
      commonName: 'p',
      names: ['127.0.0.1'],
      usage: 'server',
    });
    const faults = { duplicate: 1 };
    const server = { target: cluster.server, targetCa: cluster.ca };
    const proxy = await lineProxy({ ...server, certificate, key, seed: 'lines', faults });
    try {
      const lines = createInterface({ input: await watch(proxy.port, authority.certificate) });
      const iterator = lines[Symbol.asyncIterator]();
      const next = async (): Promise<string> => (await iterator.next()).value ?? '';
      const first = await next();
      assert.equal(JSON.parse(first).object.metadata.name, 'a', first);
      assert.equal(await next(), first);
      await proxy.set({});
      await cluster.kubectl(['label', 'node', 'a', 'x=y']);
      const { type, object } = JSON.parse(await next());
      assert.deepEqual([type, object.metadata.labels], ['MODIFIED', { x: 'y' }]);
      assert.deepEqual(await proxy.counts(), { duplicate: 1, lines: 2, requests: 1 });
      lines.close();
    } finally {
      await proxy.close();
    }
  });
});
