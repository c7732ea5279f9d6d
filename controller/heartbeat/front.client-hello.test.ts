import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { connect } from 'node:tls';
import fc from 'fast-check';
import { MOST_HELLO, offersProtocol } from './front.ts';

/** The first bytes that a client of Node.js sends. */
async function helloOf(protocols: readonly string[], servername: string): Promise<Buffer> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const client = connect({ port, host: '127.0.0.1', servername, ALPNProtocols: [...protocols] });
  client.on('error', () => {});
  const [socket] = (await once(server, 'connection')) as [Socket];
  const [bytes] = (await once(socket, 'data')) as [Buffer];
  client.destroy();
  socket.destroy();
  server.close();
  return bytes;
}

describe('offersProtocol', () => {
  let offering: Buffer;
  before(async () => {
    offering = await helloOf(['nodewall-heartbeat', 'http/1.1'], 'controller.svc');
  });

  it('finds a protocol that a client offers, and no other', async () => {
    assert.equal(offersProtocol(offering, 'nodewall-heartbeat'), true);
    assert.equal(offersProtocol(offering, 'http/1.1'), true);
    assert.equal(offersProtocol(offering, 'h2'), false);
    for (const protocols of [['http/1.1'], []])
      assert.equal(offersProtocol(await helloOf(protocols, 'other'), 'nodewall-heartbeat'), false);
  });

  it('waits for the rest of a hello, in how many pieces and records it comes', () => {
    for (let length = 0; length < offering.length; length++)
      assert.equal(offersProtocol(offering.subarray(0, length), 'nodewall-heartbeat'), null, `${length}`);
    const message = offering.subarray(5);
    const record = (part: Buffer): Buffer =>
      Buffer.concat([Buffer.from([22, 3, 1, part.length >> 8, part.length & 255]), part]);
    const split = Buffer.concat([record(message.subarray(0, 3)), record(message.subarray(3))]);
    assert.equal(offersProtocol(split, 'nodewall-heartbeat'), true);
  });

  it('takes everything else for another one, in linear time, and never waits for more than a hello', () => {
    assert.equal(offersProtocol(Buffer.from('GET / HTTP/1.1\r\n'), 'nodewall-heartbeat'), false);
    const endless = Buffer.concat(Array.from({ length: MOST_HELLO }, () => Buffer.from([22, 3, 1, 0, 0])));
    assert.equal(offersProtocol(endless, 'nodewall-heartbeat'), false);
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(offering.length - 1), fc.nat(255)), { maxLength: 8 }),
        fc.uint8Array({ maxLength: 300 }),
        (changes, tail) => {
          const bytes = Buffer.concat([offering, tail]);
          for (const [at, value] of changes) bytes[at] = value;
          assert.notEqual(offersProtocol(bytes, 'nodewall-heartbeat'), undefined);
          offersProtocol(tail, 'nodewall-heartbeat');
        },
      ),
    );
  });
});
