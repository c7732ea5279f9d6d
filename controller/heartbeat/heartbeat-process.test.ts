import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer as createHttpsServer, request } from 'node:https';
import type { Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { Worker } from 'node:worker_threads';
import { monotonicClock } from '../../lib/process/clock.ts';
import { type Authority, type Certificate, createAuthority } from '../../test/cluster/certificates.ts';
import type { HeartbeatCounts, ToHeartbeatWorld } from '../../test/fake/heartbeat-world.ts';
import { until } from '../../test/kernel/until.ts';
import { HeartbeatProcess } from './heartbeat-process.ts';

const SLOT = {
  gateway: 'g',
  slot: '0',
  node: 'gw-1',
  epoch: 1,
  addresses: ['198.51.100.1'],
  lease: 2_000,
  longest: 2_000,
};
const TIMES = { duration: 3_000, renewDeadline: 2_000, retry: 300 };

/**
 * Keeps this thread from everything else for so many milliseconds, as a compilation does, and
 * leaves the processor to others.
 */
function compute(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}

describe('the process of heartbeats', function () {
  this.timeout(120_000);
  let authority: Authority;
  let certificate: Certificate;
  let world: Worker;
  let heartbeats: HeartbeatProcess;
  let taken = 0;
  const said: string[] = [];

  before(async () => {
    authority = await createAuthority('a CA');
    certificate = await authority.issue({ commonName: 'localhost', usage: 'server', names: ['localhost'] });
    world = new Worker(new URL('../../test/fake/heartbeat-world.ts', import.meta.url));
    const [port] = (await once(world, 'message')) as [number];
    const cluster = { name: 'fake', server: `http://127.0.0.1:${port}`, skipTLSVerify: true };
    heartbeats = new HeartbeatProcess({
      data: {
        identity: 'a',
        times: TIMES,
        cluster,
        user: { name: 'nobody' },
        audiences: [],
        service: { namespace: 'nodewall-system', name: 'nodewall-controller' },
      },
      annotations: () => ({}),
      peers: () => ({ known: [], caBundle: null }),
      events: {
        leading: () => void said.push('leading'),
        lost: (reason) => void said.push(`lost: ${reason}`),
        leader: () => {},
        failed: (message) => void said.push(`failed: ${message}`),
        answered: () => {},
        heartbeatAnswered: () => void taken++,
        ended: ({ message }) => void said.push(message),
      },
    });
    heartbeats.start();
    heartbeats.elect();
    await until('it leads', async () => heartbeats.isLeader(), {
      limit: 60_000,
      detail: () => said.join('\n'),
    });
  });
  after(async () => {
    await heartbeats?.close();
    await world?.terminate();
  });

  /** A server of this process whose connections the other one accepts. */
  async function serve(): Promise<number> {
    const { key } = certificate;
    const server = createHttpsServer({ key, cert: certificate.certificate }, (asked, response) => {
      response.end(`${asked.url} of ${asked.socket.remotePort}`);
    });
    heartbeats.useTls(certificate);
    const connected = (socket: Socket) => server.emit('connection', socket);
    const { port } = await heartbeats.acceptor.listen({ host: '127.0.0.1', port: 0 }, connected);
    return port;
  }

  const get = (port: number, path: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const { certificate: ca } = authority;
      const options = { host: '127.0.0.1', port, path, ca, servername: 'localhost', agent: false } as const;
      request(options, (response) => text(response).then(resolve, reject))
        .on('error', reject)
        .end();
    });

  it('answers heartbeats and keeps the Lease while this thread computes, and hands all else over', async () => {
    const port = await serve();
    heartbeats.setNodes(new Set(['gw-1']));
    heartbeats.begin([SLOT], [2_000]);
    // Many at once: what a client answers must come to the process that has its connection.
    const paths = Array.from({ length: 100 }, (_, i) => `/${i}`);
    const answers = await Promise.all(paths.map((path) => get(port, path)));
    assert.deepEqual(
      answers.map((answer) => answer.split(' ')[0]),
      paths,
    );
    const send = (message: ToHeartbeatWorld): void => world.postMessage(message);
    // A new leader waits for the leases of the one before.
    await until('its first wait is over', async () => {
      const asked = { node: 'gw-1', boot: 'a', sent: performance.now(), held: [], ready: [] };
      return ((await heartbeats.answer(asked))?.grants.length ?? 0) > 0;
    });
    send({ kind: 'begin', port, ca: authority.certificate });
    // Its connection is there.
    const before = taken;
    await until('heartbeats come', async () => taken > before + 3);
    compute(3 * TIMES.duration);
    assert.equal(heartbeats.isLeader(), false, 'by what this thread knows');
    assert.ok(monotonicClock.now() - heartbeats.now() > TIMES.duration, 'no node counts as silent');
    const known = heartbeats.now();
    await until('this thread follows', async () => heartbeats.isLeader() && heartbeats.now() > known);
    send({ kind: 'end' });
    const [counts] = (await once(world, 'message')) as [HeartbeatCounts];
    assert.deepEqual(counts.others, []);
    assert.ok(counts.granted > 10, `${counts.granted}`);
    assert.ok(counts.renewals >= 5, `${counts.renewals} renewals`);
    assert.deepEqual([counts.holders, said], [1, ['leading']]);
  });

  it('ends the controller with it', async () => {
    const { promise, resolve } = Promise.withResolvers<string>();
    const other = new HeartbeatProcess({
      data: {
        identity: 'b',
        times: TIMES,
        user: { name: 'nobody' },
        audiences: [],
        cluster: { name: 'none', server: 'http://127.0.0.1:1', skipTLSVerify: true },
        service: { namespace: 'nodewall-system', name: 'nodewall-controller' },
      },
      annotations: () => ({}),
      peers: () => ({ known: [], caBundle: null }),
      events: {
        leading() {},
        lost() {},
        leader() {},
        failed() {},
        answered() {},
        heartbeatAnswered() {},
        ended: ({ message }) => resolve(message),
      },
    });
    other.start();
    const { pid } = other;
    assert.ok(pid !== undefined);
    process.kill(pid, 'SIGKILL');
    assert.match(await promise, /has ended \(SIGKILL\)/);
    assert.equal(other.isLeader(), false);
    const asked = { node: 'gw-1', boot: 'a', sent: 1, held: [], ready: [] };
    assert.equal(await other.answer(asked), null);
    await other.release();
    await other.close();
  });
});
