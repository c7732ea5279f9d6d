import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { KubeConfig } from '@kubernetes/client-node';
import { type KubeApiClient, kubeApi } from './kube-api.ts';
import { KubeError } from './kube-error.ts';

describe('kubeApi', () => {
  let server: Server;
  let api: KubeApiClient;
  let answer: (request: IncomingMessage, response: ServerResponse) => unknown;
  const seen: {
    method: string | undefined;
    url: string | undefined;
    headers: IncomingMessage['headers'];
    body: string;
  }[] = [];

  beforeEach(async () => {
    seen.length = 0;
    server = createServer(async (request, response) => {
      const { method, url, headers } = request;
      seen.push({ method, url, headers, body: await text(request) });
      answer(request, response);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    api = clientOf((server.address() as AddressInfo).port);
  });

  afterEach(() => {
    api.close();
    server.closeAllConnections();
    server.close();
  });

  it('returns the object, and sends credentials, query and body', async () => {
    answer = (_, response) => response.end('{"kind":"Lease"}');
    const path = '/apis/coordination.k8s.io/v1/namespaces/a/leases/b';
    assert.deepEqual(await api.request({ method: 'GET', path, query: { pretty: 'a b' } }), { kind: 'Lease' });
    await api.request({ method: 'PATCH', path, body: { spec: { é: 1 } } });
    await api.request({ method: 'PATCH', path, body: [{ op: 'remove', path: '/spec' }] });
    const [get, merge, operations] = seen;
    assert.equal(get?.url, `/base${path}?pretty=a+b`);
    assert.equal(get?.headers.authorization, 'Bearer secret');
    assert.deepEqual(
      [merge?.headers['content-type'], merge?.body],
      ['application/merge-patch+json', '{"spec":{"é":1}}'],
    );
    assert.equal(operations?.headers['content-type'], 'application/json-patch+json');
  });

  it('reuses its connection', async () => {
    const ports = new Set<number | undefined>();
    answer = (request, response) => {
      ports.add(request.socket.remotePort);
      response.end('{}');
    };
    for (let i = 0; i < 5; i++) await api.request({ method: 'GET', path: '/version' });
    assert.equal(ports.size, 1);
  });

  it('stops using idle connections after a timeout on one of them', async () => {
    const dead = new Set<object>();
    const waiting: ServerResponse[] = [];
    const arrived = Promise.withResolvers<void>();
    answer = (_, response) => {
      if (waiting.push(response) === 4) arrived.resolve();
    };
    const first = [1, 2, 3, 4].map(() => api.request({ method: 'GET', path: '/a' }));
    await arrived.promise;
    for (const response of waiting) {
      dead.add(response.req.socket);
      response.end('{}');
    }
    await Promise.all(first);
    answer = ({ socket }, response) => {
      if (!dead.has(socket)) response.end('{"kind":"Lease"}');
    };
    await assert.rejects(api.request({ method: 'GET', path: '/b', timeout: 200 }), /no answer .* in time/);
    assert.deepEqual(await api.request({ method: 'GET', path: '/b', timeout: 5000 }), { kind: 'Lease' });
    assert.equal(dead.size, 4);
  });

  it("reports the server's message and the missing RBAC rule", async () => {
    answer = (_, response) => {
      const status = {
        kind: 'Status',
        reason: 'Forbidden',
        message: 'User "x" cannot get resource "secrets"',
      };
      response.writeHead(403).end(JSON.stringify(status));
    };
    const error = await failure(api.request({ method: 'GET', path: '/api/v1/namespaces/a/secrets/b' }));
    assert.deepEqual([error.status, error.reason], [403, 'Forbidden']);
    assert.match(error.message, /User "x" cannot get resource "secrets": RBAC needs \{apiGroups: \[""\]/);
  });

  it('handles errors without a Status object', async () => {
    answer = (_, response) => response.writeHead(502).end('<html>bad gateway</html>');
    const error = await failure(api.request({ method: 'GET', path: '/version' }));
    assert.deepEqual([error.status, error.reason], [502, 'InternalError']);
    answer = (_, response) => response.end('half of it {');
    assert.match((await failure(api.request({ method: 'GET', path: '/version' }))).message, /not valid JSON/);
  });

  it('retries when a busy server asks for it, a limited number of times', async () => {
    answer = (_, response) => {
      if (seen.length < 3) response.writeHead(seen.length === 1 ? 429 : 503, { 'retry-after': '0' }).end();
      else response.end('{"done":true}');
    };
    assert.deepEqual(await api.request({ method: 'POST', path: '/x', body: {} }), { done: true });
    assert.equal(seen.length, 3);
    answer = (_, response) => response.writeHead(429, { 'retry-after': '0' }).end();
    assert.equal(
      (await failure(api.request({ method: 'POST', path: '/x', body: {} }))).reason,
      'TooManyRequests',
    );
    // Without Retry-After the request may have been processed.
    seen.length = 0;
    answer = (_, response) => response.writeHead(503).end();
    assert.equal((await failure(api.request({ method: 'POST', path: '/x', body: {} }))).status, 503);
    assert.equal(seen.length, 1);
  });

  it('retries a read, but not a write, after a broken idle connection', async () => {
    answer = (request, response) => {
      if (seen.length === 1) request.socket.destroy();
      else response.end('{}');
    };
    await api.request({ method: 'GET', path: '/version' });
    assert.equal(seen.length, 2);
    seen.length = 0;
    assert.equal((await failure(api.request({ method: 'PUT', path: '/x', body: {} }))).reason, 'Unreachable');
    assert.equal(seen.length, 1);
  });

  it('fails on timeout, on abort and on a refused connection', async () => {
    answer = () => {};
    assert.equal(
      (await failure(api.request({ method: 'GET', path: '/version', timeout: 50 }))).reason,
      'Timeout',
    );
    answer = (_, response) => response.write('{');
    assert.equal(
      (await failure(api.request({ method: 'GET', path: '/version', timeout: 50 }))).reason,
      'Timeout',
    );
    const stop = new AbortController();
    const given = api.request({ method: 'GET', path: '/version', signal: stop.signal });
    stop.abort();
    assert.equal((await failure(given)).reason, 'Aborted');
    const nobody = clientOf(1);
    const error = await failure(nobody.request({ method: 'GET', path: '/version' }));
    assert.equal(error.reason, 'Unreachable');
    assert.match(error.message, /cannot reach the API server http:\/\/127\.0\.0\.1:1: .*ECONNREFUSED/);
  });
});

function clientOf(port: number): KubeApiClient {
  const kubeConfig = new KubeConfig();
  const cluster = { name: 'c', server: `http://127.0.0.1:${port}/base/`, skipTLSVerify: true };
  kubeConfig.loadFromClusterAndUser(cluster, { name: 'u', token: 'secret' });
  return kubeApi(kubeConfig);
}

async function failure(promise: Promise<unknown>): Promise<KubeError> {
  const error = await promise.then(
    () => assert.fail('it succeeded'),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof KubeError, String(error));
  return error;
}
