import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer as createHttpsServer, get } from 'node:https';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { createAuthority } from '../cluster/certificates.ts';
import { pause, until } from '../kernel/until.ts';
import { createNamespace } from '../netns/namespace.ts';
import type { ByteFaults, Cut, FaultyProxy, LineFaults } from './faults.ts';
import { lineProxy } from './line-proxy.ts';
import { tcpProxyIn } from './process.ts';
import { tcpProxy } from './tcp-proxy.ts';

describe('tcpProxy', () => {
  let server: Server;
  let proxy: FaultyProxy<ByteFaults> | undefined;
  beforeEach(async () => {
    server = createServer((socket) => socket.on('error', () => {}).pipe(socket));
    await once(server.listen(0, '127.0.0.1'), 'listening');
  });
  afterEach(async () => {
    await proxy?.close();
    server.close();
  });
  const start = async (faults: ByteFaults): Promise<FaultyProxy<ByteFaults>> => {
    const targetPort = portOf(server);
    proxy = await tcpProxy({ targetHost: '127.0.0.1', targetPort, seed: 'test', faults });
    return proxy;
  };
  const dial = (port: number): Socket => connect({ port, host: '127.0.0.1' });

  it('forwards both directions completely without faults', async () => {
    const { port, counts } = await start({});
    const socket = dial(port);
    socket.end(Buffer.alloc(300_000, 'x'));
    assert.equal((await text(socket)).length, 300_000);
    assert.deepEqual(await counts(), { connections: 1 });
  });

  it('keeps the order of what it delays', async () => {
    const { port } = await start({ delay: [0, 5] });
    const socket = dial(port);
    const sent = Array.from({ length: 50 }, (_, i) => `${i}\n`);
    for (const line of sent) await new Promise((done) => socket.write(line, done));
    socket.end();
    assert.equal(await text(socket), sent.join(''));
  });

  it('cuts by a reset, an end in the middle, or silence', async () => {
    const { port, set, counts } = await start({});
    const received: string[] = [];
    server.on('connection', (socket) => socket.on('data', (part) => received.push(String(part))));
    const outcome = async (cut: Cut): Promise<unknown> => {
      await set({ cutAfter: 1, cuts: [cut] });
      const socket = dial(port);
      const ended = text(socket).catch((error) => error.code);
      socket.write(cut.padEnd(10, '.'));
      if (cut !== 'silence') return ended;
      await until('it is cut', async () => (await counts())['cut by silence'] === 1);
      socket.end('more');
      return Promise.race([ended, pause(100).then(() => 'silent')]);
    };
    assert.equal(await outcome('reset'), 'ECONNRESET');
    assert.equal(await outcome('end'), '');
    assert.equal(await outcome('silence'), 'silent');
    // Of the second: half of what was sent.
    assert.deepEqual(received, ['end..']);
    assert.deepEqual(await counts(), {
      connections: 3,
      'cut by end': 1,
      'cut by reset': 1,
      'cut by silence': 1,
    });
  });

  it('rejects the configured share, and cuts all connections on command', async () => {
    const { port, set, cutAll, counts } = await start({ refuse: 1 });
    assert.equal(await text(dial(port)).catch((error) => error.code), 'ECONNRESET');
    await set({});
    const socket = dial(port);
    socket.write('a');
    await once(socket, 'data');
    const ended = once(socket, 'error');
    await cutAll('reset');
    assert.equal((await ended)[0].code, 'ECONNRESET');
    assert.deepEqual(await counts(), { connections: 2, 'cut by reset': 1, refused: 1 });
  });

  it('makes the same choices for the same seed', async () => {
    const refused = async (): Promise<string> => {
      const { port, close } = await start({ refuse: 0.5 });
      const outcomes: string[] = [];
      for (let i = 0; i < 16; i++) {
        const socket = dial(port);
        socket.end();
        outcomes.push((await text(socket).catch(() => 'refused')) || 'carried');
      }
      await close();
      proxy = undefined;
      return outcomes.join(' ');
    };
    const first = await refused();
    assert.match(first, /carried.*refused|refused.*carried/);
    assert.equal(await refused(), first);
  });
});

describe('lineProxy', () => {
  const LINES = Array.from({ length: 20 }, (_, i) => JSON.stringify({ sequence: i }));
  let ca: string;
  let certificate: string;
  let key: string;
  let server: ReturnType<typeof createHttpsServer>;
  before(async () => {
    const authority = await createAuthority('test authority');
    ({ certificate, key } = await authority.issue({
      commonName: 'test',
      names: ['127.0.0.1'],
      usage: 'server',
    }));
    ca = authority.certificate;
    server = createHttpsServer({ cert: certificate, key }, (request, response) => {
      if (request.method === 'PUT') return void request.pipe(response);
      response.writeHead(200, { 'x-token': request.headers.authorization });
      for (const line of LINES) response.write(`${line}\n`);
      if (request.url !== '/open?watch=true') response.end();
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
  });
  after(() => server.close());

  async function answered(faults: LineFaults, path = '/a?watch=true'): Promise<string[]> {
    const target = `https://127.0.0.1:${portOf(server)}`;
    const proxy = await lineProxy({ target, targetCa: ca, certificate, key, seed: 'test', faults });
    try {
      const url = `https://127.0.0.1:${proxy.port}${path}`;
      const asked = get(url, { ca, agent: false, headers: { authorization: 'Bearer t' } });
      const [response] = await once(asked, 'response');
      assert.equal(response.headers['x-token'], 'Bearer t');
      return (await text(response)).split('\n').filter((line) => line !== '');
    } finally {
      await proxy.close();
    }
  }
  const half = (line = '') => line.slice(0, line.length >> 1);

  const CASES: readonly (readonly [string, LineFaults, readonly string[]])[] = [
    ['does nothing wrong', {}, LINES],
    ['doubles', { duplicate: 1 }, LINES.flatMap((line) => [line, line])],
    ['drops', { drop: 1 }, []],
    ['touches only some', { drop: 1, only: '7' }, LINES.filter((line) => !line.includes('7'))],
    ['swaps', { swap: 1 }, LINES.flatMap((_, i) => (i % 2 ? [LINES[i], LINES[i - 1]] : [])) as string[]],
    ['truncates', { truncate: 1 }, [half(LINES[0])]],
    ['ends early, in order', { end: 1 }, LINES.slice(0, 1)],
    ['keeps the order of what it delays', { delay: [0, 3] }, LINES],
  ];
  for (const [title, faults, expected] of CASES) {
    it(title, async () => assert.deepEqual(await answered(faults), expected));
  }

  it('changes one byte of a line', async () => {
    const lines = await answered({ garble: 1 });
    assert.equal(lines.length, LINES.length);
    for (const [i, line] of lines.entries()) {
      const different = [...line].filter((character, at) => character !== LINES[i]?.[at]);
      assert.equal(different.length, 1);
    }
  });

  it('cuts a watch by a reset beneath its TLS, or an end', async () => {
    const target = `https://127.0.0.1:${portOf(server)}`;
    const proxy = await lineProxy({ target, targetCa: ca, certificate, key, seed: 'test' });
    try {
      for (const [how, outcome] of [
        ['reset', 'ECONNRESET'],
        ['end', 'whole'],
      ] as const) {
        const url = `https://127.0.0.1:${proxy.port}/open?watch=true`;
        const asked = get(url, { ca, agent: false, headers: { authorization: 'Bearer t' } });
        asked.on('error', () => {});
        const [response] = await once(asked, 'response');
        const read = text(response).then(
          () => 'whole',
          (error: NodeJS.ErrnoException) => error.code,
        );
        await once(response, 'data');
        await proxy.cutAll(how);
        assert.equal(await read, outcome);
      }
      assert.equal((await proxy.counts())['cut by reset'], 1);
    } finally {
      await proxy.close();
    }
  });

  it('does not touch answers other than watches', async () => {
    assert.deepEqual(await answered({ drop: 1 }, '/a'), LINES);
  });
});

describe('a proxy in a network namespace', () => {
  it('listens there, and is controlled from the test', async () => {
    const namespace = await createNamespace('proxy');
    try {
      await namespace.run(['ip', 'link', 'set', 'lo', 'up']);
      const proxy = await tcpProxyIn(namespace, { targetHost: '127.0.0.1', targetPort: 9, seed: 'a' });
      await proxy.set({ refuse: 1 });
      const script = `require('net').connect(${proxy.port}, '127.0.0.1').on('error', (e) => console.log(e.code))`;
      const { stdout } = await namespace.run([process.execPath, '-e', script]);
      assert.equal(stdout, 'ECONNRESET\n');
      assert.deepEqual(await proxy.counts(), { connections: 1, refused: 1 });
      await proxy.close();
    } finally {
      await namespace.close();
    }
  });
});

function portOf(server: { address(): AddressInfo | string | null }): number {
  return (server.address() as AddressInfo).port;
}
