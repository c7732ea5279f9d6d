import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent, createServer, get, type IncomingMessage, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { limitConnections } from './limit-connections.ts';

describe('limitConnections', () => {
  let server: Server;
  const idle: Socket[] = [];
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  beforeEach(async () => {
    server = createServer({ keepAliveTimeout: 60_000 }, (_, response) => response.end()).listen(
      0,
      '127.0.0.1',
    );
    limitConnections(server, 3);
    await once(server, 'listening');
  });
  afterEach(() => {
    for (const socket of idle.splice(0)) socket.destroy();
    agent.destroy();
    server.closeAllConnections();
    server.close();
  });

  const port = (): number => (server.address() as AddressInfo).port;
  async function hold(): Promise<Socket> {
    const accepted = once(server, 'connection');
    const socket = connect(port(), '127.0.0.1');
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
});
