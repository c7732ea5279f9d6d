import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { Agent, createServer, get, type IncomingMessage, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { ConnectionLimit, type ConnectionLimits, sourceOf } from './server-connections.ts';

describe('ConnectionLimit', () => {
  let server: Server;
  let limits: ConnectionLimits;
  let limit: ConnectionLimit;
  const idle: Socket[] = [];
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  beforeEach(async () => {
    server = createServer({ keepAliveTimeout: 60_000 }, (_, response) => response.end()).listen(0, '0.0.0.0');
    limits = { most: () => 3, mostOfSource: 3 };
    limit = new ConnectionLimit(server, {
      most: () => limits.most(),
      get mostOfSource() {
        return limits.mostOfSource;
      },
      get patience() {
        return limits.patience;
      },
    } as ConnectionLimits);
    await once(server, 'listening');
  });
  afterEach(() => {
    for (const socket of idle.splice(0)) socket.destroy();
    agent.destroy();
    server.closeAllConnections();
    server.close();
  });

  const port = (): number => (server.address() as AddressInfo).port;
  /** Other addresses of the loopback network are other sources. */
  async function hold(localAddress = '127.0.0.1'): Promise<Socket> {
    const accepted = once(server, 'connection');
    const socket = connect({ port: port(), host: '127.0.0.1', localAddress });
    socket.on('error', () => {});
    socket.resume();
    idle.push(socket);
    await accepted;
    return socket;
  }
  async function ask(): Promise<number> {
    const [response] = (await once(get({ port: port(), host: '127.0.0.1', agent }), 'response')) as [
      IncomingMessage,
    ];
    const { localPort = 0 } = response.socket;
    response.resume();
    await once(response, 'end');
    return localPort;
  }

  it('closes the connection that is idle for longest, and keeps active ones', async () => {
    const first = await hold();
    const own = await ask();
    await hold();
    const gone = once(first, 'close');
    first.resume();
    await hold();
    await gone;
    assert.equal(await ask(), own);
    for (let i = 0; i < 10; i++) {
      await hold();
      assert.equal(await ask(), own, 'the same connection');
    }
  });

  it('closes connections of the source that has most, however many sources there are', async () => {
    limits = { most: () => 6, mostOfSource: 6 };
    const own = await ask();
    const few = [await hold('127.0.0.2'), await hold('127.0.0.3')];
    for (let i = 0; i < 20; i++) await hold('127.0.0.4');
    assert.equal(limit.size, 6);
    assert.equal(await ask(), own, 'the same connection');
    assert.ok(few.every(({ destroyed }) => !destroyed));
  });

  it('limits the connections of one source, while there are few in all', async () => {
    limits = { most: () => 100, mostOfSource: 2 };
    for (let i = 0; i < 20; i++) await hold('127.0.0.4');
    await hold('127.0.0.5');
    assert.equal(limit.size, 3);
  });

  it('does not count connections that are kept, and closes none of them; of one owner it keeps a few', async () => {
    server.on('request', ({ socket }) => limit.keep(socket, 'me'));
    const own = await ask();
    assert.equal(limit.size, 0);
    for (let i = 0; i < 20; i++) await hold();
    assert.equal(limit.size, 3);
    assert.equal(await ask(), own);
    limits = { most: () => 100, mostOfSource: 100 };
    const other = new Agent({ keepAlive: true });
    const all = Array.from({ length: 20 }, async () => {
      const [response] = (await once(get({ port: port(), host: '127.0.0.1', agent: other }), 'response')) as [
        IncomingMessage,
      ];
      await once(response.resume(), 'end');
    });
    await Promise.all(all);
    assert.equal(limit.size, 3 + 5, '16 are kept');
    other.destroy();
  });

  it('while connections are scarce, ends those without a request for longer than its patience', async () => {
    limits = { most: () => 4, mostOfSource: 4, patience: 50 };
    const slow = [await hold('127.0.0.2'), await hold('127.0.0.3')];
    await sleep(100);
    assert.equal(limit.size, 2);
    const gone = slow.map((socket) => once(socket, 'close'));
    await hold();
    await Promise.all(gone);
    assert.equal(limit.size, 1);
  });

  describe('with sockets whose clients have reset them', () => {
    const opened = (port?: number, source = '127.0.0.1') => {
      const socket = Object.assign(new EventEmitter(), {
        remoteAddress: port === undefined ? undefined : source,
        remotePort: port,
        isDestroyed: false,
        destroy() {
          socket.isDestroyed = true;
        },
      });
      server.emit('connection', socket);
      return socket;
    };
    // The HTTP server itself needs real sockets.
    beforeEach(() => {
      server.removeAllListeners('connection');
      limit = new ConnectionLimit(server, { most: () => 3, mostOfSource: 100 });
    });

    it('does not count those without an address, which end', () => {
      const gone = Array.from({ length: 20 }, () => opened());
      assert.ok(gone.every(({ isDestroyed }) => isDestroyed));
      assert.equal(limit.size, 0);
      for (let port = 1; port <= 20; port++) opened(port);
      assert.equal(limit.size, 3);
    });

    it('counts a port once that is used again before the end of its last connection is known', () => {
      const gone = Array.from({ length: 20 }, () => opened(1, '127.0.0.2'));
      for (const socket of gone) socket.emit('close');
      const rest = [opened(2), opened(3), opened(4), opened(5)];
      assert.deepEqual(
        rest.map(({ isDestroyed }) => isDestroyed),
        [true, false, false, false],
      );
      assert.equal(limit.size, 3);
    });

    it('keeps as many of an owner as before, when kept connections end after their port is used again', () => {
      for (let i = 0; i < 40; i++) {
        const [last, now] = [opened(1), opened(1)];
        limit.keep(now as unknown as Socket, 'me');
        assert.equal(limit.size, 0);
        last.emit('close');
        now.emit('close');
      }
      const last = opened(1);
      limit.keep(last as unknown as Socket, 'me');
      const now = opened(1);
      limit.keep(now as unknown as Socket, 'me');
      last.emit('close');
      now.emit('close');
      for (let port = 1; port <= 20; port++) limit.keep(opened(port) as unknown as Socket, 'me');
      assert.equal(limit.size, 3, '16 are kept');
    });
  });
});

describe('sourceOf', () => {
  for (const [remoteAddress, source] of [
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::6', '2001:db8:1:2::/64'],
    ['2001:db8::6', '2001:db8:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['2001:db8:1:2:3::', '2001:db8:1:2::/64'],
    [undefined, ''],
  ] as const) {
    it(`counts ${remoteAddress} as ${source}`, () => assert.equal(sourceOf({ remoteAddress }), source));
  }
});
