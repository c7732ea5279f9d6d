import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { until } from '../../test/kernel/until.ts';
import { Front } from './front.ts';

/** A ClientHello that offers these protocols, and nothing else. */
function hello(...protocols: readonly string[]): Buffer {
  const sized = (bytes: Buffer, lengthBytes: number): Buffer => {
    const length = Buffer.alloc(lengthBytes);
    length.writeUIntBE(bytes.length, 0, lengthBytes);
    return Buffer.concat([length, bytes]);
  };
  const names = Buffer.concat(protocols.map((name) => sized(Buffer.from(name), 1)));
  const alpn = Buffer.concat([Buffer.from([0, 16]), sized(sized(names, 2), 2)]);
  const fixed = Buffer.alloc(2 + 32 + 1 + 2 + 1);
  const message = Buffer.concat([Buffer.from([1]), sized(Buffer.concat([fixed, sized(alpn, 2)]), 3)]);
  return Buffer.concat([Buffer.from([22, 3, 1]), sized(message, 2)]);
}

describe('Front', () => {
  const clients: Socket[] = [];
  const own: Socket[] = [];
  const others: { readonly bytes: Uint8Array; readonly socket: Socket; readonly taken: () => void }[] = [];
  let front: Front;
  let port: number;

  before(async () => {
    front = new Front({
      protocol: 'beat',
      most: () => 3,
      ours: (socket) => void own.push(socket),
      others: (bytes, socket, taken) => void others.push({ bytes, socket, taken }),
    });
    ({ port } = await front.listen({ host: '127.0.0.1', port: 0 }));
  });
  afterEach(() => {
    for (const { taken } of others) taken();
    for (const socket of [...clients, ...own, ...others.map((one) => one.socket)]) socket.destroy();
    for (const list of [clients, own, others]) list.splice(0);
  });
  after(() => front.stop());

  async function client(...parts: readonly Buffer[]): Promise<Socket> {
    const socket = connect(port, '127.0.0.1');
    clients.push(socket);
    socket.on('error', () => {}).resume();
    await once(socket, 'connect');
    for (const part of parts) socket.write(part);
    return socket;
  }

  it('keeps what offers the protocol, with all that was read of it', async () => {
    const bytes = hello('beat', 'http/1.1');
    const one = await client();
    for (const byte of bytes) one.write(Buffer.from([byte]));
    await until('it is there', async () => own.length === 1);
    assert.deepEqual(own[0]?.read(), bytes);
    assert.equal(others.length, 0);
  });

  it('hands everything else over, and reads nothing more of it', async () => {
    const bytes = hello('http/1.1');
    const one = await client(bytes);
    await until('it is handed over', async () => others.length === 1);
    assert.deepEqual(Buffer.from(others[0]?.bytes ?? []), bytes);
    one.write('what the client answers to the other process');
    // The loop has polled for another connection meanwhile, more than once.
    for (const count of [1, 2]) {
      await client(hello('beat'));
      await until('that is there', async () => own.length === count);
    }
    assert.equal(others[0]?.socket.bytesRead, bytes.length);
    await client(Buffer.from('GET / HTTP/1.1\r\n'));
    await until('it is not TLS', async () => others.length === 2);
  });

  it('closes what comes while too many wait to be taken, and no longer when they are', async () => {
    for (const count of [1, 2, 3]) {
      await client(hello('http/1.1'));
      await until('it waits', async () => others.length === count);
      // So many of the connections that are not taken are open.
    }
    const refused = await client(hello('http/1.1'));
    await until('it is closed', async () => refused.destroyed);
    for (const { taken } of others.splice(0)) taken();
    await client(hello('http/1.1'));
    await until('it is handed over', async () => others.length === 1);
  });
});
