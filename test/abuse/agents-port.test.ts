/** Attacks on port 8443, by clients without credentials and with a stolen token. */

import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { type Authority, type Certificate, createAuthority } from '../cluster/certificates.ts';
import { nodeReport } from '../fake/node-state.ts';
import { until } from '../kernel/until.ts';
import { Clients, closed, everything, type Ports } from './clients.ts';
import type { ServedInput, ServedStats } from './served.ts';

/** The servers of a controller in a process of their own (served.ts), and clients of them. */
class ControlPlane extends Clients {
  readonly #child: ChildProcess;
  readonly #proxies: Authority;

  private constructor(child: ChildProcess, ports: Ports, ca: string, proxies: Authority) {
    super(ports, ca);
    this.#child = child;
    this.#proxies = proxies;
  }

  static async start(limits: ServedInput['limits'] = {}): Promise<ControlPlane> {
    const authorities = [await createAuthority('servers'), await createAuthority('front proxies')] as const;
    const pair = await authorities[0].issue({ commonName: 'c', names: ['localhost'], usage: 'server' });
    const input = { key: pair.key, cert: pair.certificate, clientCa: authorities[1].certificate, limits };
    const child = fork(join(import.meta.dirname, 'served.ts'), [JSON.stringify(input)], { execArgv: [] });
    const [ports] = (await once(child, 'message')) as [Ports];
    return new ControlPlane(child, ports, authorities[0].certificate, authorities[1]);
  }

  /** Ends the attackers, and the process. */
  async close(): Promise<void> {
    this.endClients();
    if (this.#child.exitCode !== null) throw new Error('the controller has ended');
    this.#child.disconnect();
    await once(this.#child, 'exit');
  }

  frontProxy(commonName = 'front-proxy-client'): Promise<Certificate> {
    return this.#proxies.issue({ commonName, usage: 'client' });
  }

  /** Values are those since the last call. */
  async stats(): Promise<ServedStats> {
    this.#child.send('stats');
    const [stats] = (await once(this.#child, 'message')) as [ServedStats];
    return stats;
  }

  /** A change for all agents. */
  change(): void {
    this.#child.send('change');
  }
}

const REPORT = nodeReport('node-3', 'e.1');
const LIMITS = {
  connections: 80,
  connectionsOfSource: 40,
  patience: 1000,
  responseTime: 1500,
  requestTime: 5000,
  headTime: 5000,
};
describe('port 8443, attacked', function () {
  this.timeout(30_000);
  let plane: ControlPlane;
  let agents: Awaited<ReturnType<ControlPlane['agent']>>[];
  before(async () => {
    plane = await ControlPlane.start(LIMITS);
  });
  after(() => plane.close());
  beforeEach(async () => {
    agents = await Promise.all(['node-0', 'node-1', 'node-2'].map((node) => plane.agent(node)));
    await until('the agents have their views', async () => agents.every(({ bookmarks }) => bookmarks > 0));
  });
  afterEach(async () => {
    const before = agents.map(({ bookmarks }) => bookmarks);
    plane.change();
    await until('each agent has the change', async () =>
      agents.every(({ bookmarks, isOpen }, index) => isOpen && bookmarks > (before[index] ?? 0)),
    );
    plane.endClients();
    assert.deepEqual((await plane.stats()).failures, []);
  });

  it('keeps agents, and serves new ones, while idle connections of many sources are opened', async () => {
    const flood = (index: number) => plane.connect({ from: `127.0.1.${1 + (index % 30)}` });
    for (let round = 0; round < 10; round++)
      await Promise.all(Array.from({ length: 60 }, (_, index) => flood(round * 60 + index)));
    const late = await plane.agent('node-4');
    await until('the new agent has its view', async () => late.bookmarks > 0);
  });

  it('keeps a client of few connections, while one source opens many', async () => {
    const many = () => Promise.all(Array.from({ length: 60 }, () => plane.connect({ from: '127.0.2.2' })));
    for (let round = 0; round < 4; round++) await many();
    // As late as can be: its head must be there in time.
    const few = await plane.connect({ from: '127.0.2.1' });
    await many();
    assert.equal(few.destroyed, false);
    few.end(`GET /apis HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer user.a\r\nConnection: close\r\n\r\n`);
    assert.match(await text(few), /^HTTP\/1.1 200/);
  });

  it('ends connections without a whole head in time, while connections are scarce', async () => {
    const slow = await Promise.all(Array.from({ length: 38 }, () => plane.connect({ from: '127.0.3.1' })));
    for (const socket of slow) socket.write('GET / HTTP/1.1\r\nHost:');
    const silent = await Promise.all(
      Array.from({ length: 30 }, (_, index) => plane.connect({ from: `127.0.3.${2 + index}` })),
    );
    await new Promise((resolve) => setTimeout(resolve, LIMITS.patience + 200));
    await plane.connect({ from: '127.0.4.1' });
    await Promise.all([...slow, ...silent].map(closed));
  });

  it('ends a head that arrives byte by byte', async () => {
    const socket = await plane.connect({ from: '127.0.5.1' });
    const drip = setInterval(() => socket.write('x'), 50);
    socket.write('GET / HTTP/1.1\r\nX-Drip: ');
    await closed(socket);
    clearInterval(drip);
  });

  it('reads heads of 8 KiB, and longer ones only of the front proxy by its certificate', async () => {
    const certificate = async (name?: string) => {
      const { certificate: cert, key } = await plane.frontProxy(name);
      return { cert, key };
    };
    const headers = { 'x-remote-user': 'a', 'x-remote-group': 'g'.repeat(20_000) };
    assert.equal((await plane.ask('/apis', { headers, ...(await certificate()) })).code, 200);
    assert.equal((await plane.ask('/apis', { headers, ...(await certificate('kubelet')) })).code, 431);
    assert.equal((await plane.ask('/apis', { headers, token: 'user.a' })).code, 431);
    const short = { 'x-remote-group': 'g'.repeat(7000) };
    assert.equal((await plane.ask('/apis', { headers: short, token: 'user.a' })).code, 200);
  });

  it('answers one request without a token, and closes the connection', async () => {
    const socket = await plane.connect({ from: '127.0.6.1' });
    socket.write('GET /apis HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(1000));
    const answers = await everything(socket);
    assert.ok((answers.match(/HTTP\/1.1 401/g) ?? []).length <= 4, answers);
    for (let index = 0; index < 200; index++)
      assert.equal((await plane.ask('/apis', { from: '127.0.6.2' })).headers.connection, 'close');
  });

  it('refuses requests that two readers could understand differently', async () => {
    for (const request of [
      'POST /apis HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      'POST /apis HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde',
      'POST /apis HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n',
      'POST /apis HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n',
      'GET /apis HTTP/1.1\r\nHost: x\r\nA: b\r\n Content-Length: 4\r\n\r\nabcd',
      'GET /apis HTTP/1.1\nHost: x\n\n',
      'GET /apis HTTP/1.1\r\nHost: x\r\nA: b\rContent-Length: 4\r\n\r\nabcd',
      'GET /apis HTTP/1.1\r\nAuthorization: Bearer user.a\r\n\r\n',
    ]) {
      const socket = await plane.connect({ from: '127.0.7.1' });
      socket.write(request);
      const answer = await everything(socket);
      assert.match(answer, /^HTTP\/1.1 400/, JSON.stringify(request));
      assert.equal(answer.match(/HTTP\/1.1/g)?.length, 1, answer);
    }
  });

  it('offers no HTTP/2, and ends a connection that renegotiates', async () => {
    const second = await plane.connect({ ALPNProtocols: ['h2', 'http/1.1'] });
    assert.notEqual(second.alpnProtocol, 'h2');
    const old = (await plane.connect({ maxVersion: 'TLSv1.2' })).resume();
    for (let count = 0; count < 10 && !old.destroyed; count++) {
      const renegotiated = new Promise((resolve) => old.renegotiate({}, resolve));
      await Promise.race([renegotiated, once(old, 'close')]);
    }
    await closed(old);
  });

  it('limits the reads and the watches of one user, and not those of others', async () => {
    const code = async (path: string, token: string) => {
      const response = await plane.open(path, { token });
      response.destroy();
      if (response.statusCode === 429) assert.equal(response.headers['retry-after'], '1');
      return response.statusCode;
    };
    // Ten at once: they come faster than the limit grows, also on a slow machine.
    const isLimited = async (path: string, token: string) => {
      for (let round = 0; round < 20; round++) {
        const codes = await Promise.all(Array.from({ length: 10 }, () => code(path, token)));
        if (codes.includes(429)) return true;
      }
      return false;
    };
    assert.ok(await isLimited(NODE_VIEWS_PATH, 'user.reader'), 'reads');
    const path = `${NODE_VIEWS_PATH}?watch=1&fieldSelector=metadata.name=node-5`;
    assert.ok(await isLimited(path, 'agent.node-5'), 'watches');
    assert.equal((await plane.ask(NODE_VIEWS_PATH, { token: 'user.other' })).code, 200);
    assert.equal(await code(path.replace('node-5', 'node-6'), 'agent.node-6'), 200);
  });

  it('ends a response that its client does not take', async () => {
    const read =
      'GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer user.slow\r\nConnection: close\r\n\r\n';
    const slow = await Promise.all(Array.from({ length: 5 }, () => plane.connect({ from: '127.0.8.1' })));
    for (const socket of slow) socket.pause().write(read);
    await new Promise((resolve) => setTimeout(resolve, 2 * LIMITS.responseTime));
    const answers = await Promise.all(slow.map(everything));
    const sizes = answers.filter((answer) => answer.startsWith('HTTP/1.1 200')).map(({ length }) => length);
    assert.equal(sizes.length, 2);
    assert.ok(Math.max(...sizes) < 24 << 20, sizes.join());
    assert.equal(answers.filter((answer) => answer.startsWith('HTTP/1.1 429')).length, 3);
  });

  it('ends a report that arrives byte by byte, and takes few at the same time', async () => {
    const head = `PUT ${NODE_VIEWS_PATH}/node-8/status HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer agent.node-8\r\nContent-Type: application/json\r\nContent-Length: 200000\r\n\r\n`;
    const slow = await Promise.all(Array.from({ length: 5 }, () => plane.connect({ from: '127.0.9.1' })));
    const answers = slow.map(everything);
    for (const socket of slow) socket.write(head);
    const drip = setInterval(() => {
      for (const socket of slow) socket.write(' ');
    }, 50);
    const codes = (await Promise.all(answers)).map((answer) => /^HTTP\/1.1 (\d+)/.exec(answer)?.[1] ?? '');
    clearInterval(drip);
    assert.equal(codes.filter((code) => code === '429').length, 3, codes.join());
    const put = { method: 'PUT', headers: { 'content-type': 'application/json' } };
    const path = `${NODE_VIEWS_PATH}/node-3/status`;
    assert.equal(
      (await plane.ask(path, { ...put, token: 'agent.node-3', body: JSON.stringify(REPORT) })).code,
      204,
    );
  });

  it('gives its metrics to whom the API server allows it, and on the other port to itself alone', async () => {
    assert.equal((await plane.ask('/metrics')).code, 401);
    assert.equal((await plane.ask('/metrics', { token: 'user.nobody' })).code, 403);
    const { code, body } = await plane.ask('/metrics', { token: 'user.prometheus' });
    assert.equal(code, 200);
    assert.match(body, /^nodewall_test 1\n/);
    assert.equal((await fetch(`http://127.0.0.1:${plane.ports.health}/metrics`)).status, 200);
  });
});
