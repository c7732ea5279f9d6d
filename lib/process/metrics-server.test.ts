import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { Counter, Registry } from 'prom-client';
import { CommandError, EXIT } from './exit.ts';
import { type MetricsServer, serveMetrics } from './metrics-server.ts';
import { toListenAddress } from './option-value.ts';

describe('a listen address', () => {
  it('is parsed in every form', () => {
    assert.deepEqual(toListenAddress('127.0.0.1:9412', '--x'), { host: '127.0.0.1', port: 9412 });
    assert.deepEqual(toListenAddress('[::1]:9412', '--x'), { host: '::1', port: 9412 });
    assert.deepEqual(toListenAddress(':0', '--x'), { host: undefined, port: 0 });
    assert.deepEqual(toListenAddress('localhost:1', '--x'), { host: 'localhost', port: 1 });
  });

  it('names the option in the error if it is invalid', () => {
    for (const text of [
      '',
      '9412',
      '127.0.0.1',
      '::1:9412',
      '[::1]',
      '[10.0.0.1]:1',
      'a:65536',
      'a:-1',
      'a:b',
    ]) {
      assert.throws(
        () => toListenAddress(text, '--x'),
        (error) =>
          error instanceof CommandError && error.status === EXIT.usage && /^--x: /.test(error.message),
        text,
      );
    }
  });
});

describe('the metrics server', () => {
  let server: MetricsServer;
  let failure: string | null = null;
  let missing: string | null = null;
  const registry = new Registry();
  const counter = new Counter({ name: 'nodewall_test_total', help: 'x', registers: [registry] });
  before(async () => {
    server = await serveMetrics({
      listen: '127.0.0.1:0',
      registry,
      healthy: () => failure,
      ready: () => missing,
    });
  });
  after(() => server.close());

  async function get(path: string, method = 'GET'): Promise<[number, string]> {
    const response = await fetch(`http://127.0.0.1:${server.port}${path}`, { method });
    return [response.status, await response.text()];
  }

  it('reports health and readiness', async () => {
    assert.deepEqual(await get('/healthz'), [200, 'ok\n']);
    assert.deepEqual(await get('/readyz?verbose'), [200, 'ok\n']);
    missing = 'nothing is enforced yet';
    assert.deepEqual(await get('/readyz'), [503, 'nothing is enforced yet\n']);
    assert.deepEqual(await get('/healthz'), [200, 'ok\n']);
    failure = 'stuck';
    assert.deepEqual(await get('/healthz'), [503, 'stuck\n']);
  });

  it('answers while another client holds connections', async () => {
    const held = Array.from({ length: 80 }, () => connect(server.port, '127.0.0.1'));
    for (const socket of held) socket.on('error', () => {});
    await Promise.all(held.map((socket) => once(socket, 'connect')));
    assert.equal((await get('/metrics'))[0], 200);
    for (const socket of held) socket.destroy();
  });

  it('serves the metrics in the format of Prometheus', async () => {
    counter.inc(3);
    const response = await fetch(`http://127.0.0.1:${server.port}/metrics`);
    assert.match(response.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/);
    assert.match(await response.text(), /^nodewall_test_total 3$/m);
  });

  it('gives metrics to this machine alone where it is told so, and health to all', async function () {
    const other = Object.values(networkInterfaces())
      .flat()
      .find((one) => one?.internal === false && one.family === 'IPv4')?.address;
    if (other === undefined) return this.skip();
    const options = { registry, isLocal: true, healthy: () => null, ready: () => 'not yet' };
    const local = await serveMetrics({ ...options, listen: ':0' });
    const ask = async (host: string, path: string): Promise<[number, string]> => {
      const response = await fetch(`http://${host}:${local.port}${path}`);
      return [response.status, await response.text()];
    };
    try {
      assert.equal((await ask('127.0.0.1', '/metrics'))[0], 200);
      const [status, text] = await ask(other, '/metrics');
      assert.equal(status, 403);
      assert.doesNotMatch(text, /nodewall_/);
      assert.deepEqual(await ask(other, '/readyz'), [503, 'not yet\n']);
    } finally {
      await local.close();
    }
  });

  it('rejects other paths and methods', async () => {
    assert.equal((await get('/constructor'))[0], 404);
    assert.equal((await get('/'))[0], 404);
    assert.equal((await get('/metrics', 'POST'))[0], 405);
    assert.deepEqual(await get('/healthz', 'HEAD'), [failure === null ? 200 : 503, '']);
  });

  it('rejects a request whose head is longer than 8 KiB', async () => {
    const ask = (length: number) =>
      fetch(`http://127.0.0.1:${server.port}/metrics`, { headers: { 'x-long': 'x'.repeat(length) } });
    assert.equal((await ask(7000)).status, 200);
    assert.equal((await ask(9000)).status, 431);
  });

  it('reports an address in use', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await new Promise((listening) => other.once('listening', listening));
    const { port } = other.address() as { port: number };
    const options = { registry, healthy: () => null, ready: () => null };
    await assert.rejects(
      serveMetrics({ ...options, listen: `127.0.0.1:${port}` }),
      (error) =>
        error instanceof CommandError && error.status === EXIT.refused && /EADDRINUSE/.test(error.message),
    );
    await new Promise((closed) => other.close(closed));
  });
});
