import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { PacketSocket } from '../lib/index.ts';
import { inNamespace, ip } from './netns.ts';

const LOCAL = Buffer.from('020000000001', 'hex');
const OTHER = Buffer.from('020000000002', 'hex');

/** An Ethernet frame; with a body of zeros up to the length. */
function frame(type: number, body: Uint8Array, length = 60): Uint8Array {
  const bytes = Buffer.alloc(Math.max(length, 14 + body.length));
  bytes.set(OTHER, 0);
  bytes.set(LOCAL, 6);
  bytes.writeUInt16BE(type, 12);
  bytes.set(body, 14);
  return bytes;
}

/** IPv6 with a next header, and the first byte behind it. */
function ipv6(next: number, type: number): Uint8Array {
  const bytes = Buffer.alloc(48);
  bytes[0] = 0x60;
  bytes[6] = next;
  bytes[40] = type;
  return bytes;
}

inNamespace(import.meta.filename, () => {
  describe('PacketSocket', () => {
    let here: number;
    let there: number;
    before(() => {
      ip('link', 'add', 'here', 'type', 'veth', 'peer', 'name', 'there');
      for (const link of ['here', 'there']) ip('link', 'set', link, 'up');
      [here, there] = ['here', 'there'].map(
        (name) => (JSON.parse(ip('-j', 'link', 'show', name)) as [{ ifindex: number }])[0].ifindex,
      ) as [number, number];
    });

    async function received(socket: PacketSocket, count: number): Promise<Uint8Array[]> {
      const frames: Uint8Array[] = [];
      const end = performance.now() + 5_000;
      while (frames.length < count && performance.now() < end) {
        frames.push(...socket.receive());
        await sleep(1);
      }
      return frames;
    }

    it('sends and receives whole frames of ARP', async () => {
      const [from, to] = [new PacketSocket(here, 'arp'), new PacketSocket(there, 'arp')];
      const sent = [1, 2].map((byte) => frame(0x0806, Uint8Array.of(byte)));
      for (const one of sent) from.send(one);
      assert.deepEqual(
        (await received(to, 2)).map((one) => Buffer.from(one)),
        sent.map((one) => Buffer.from(one)),
      );
      assert.deepEqual(from.receive(), [], 'its own');
      await Promise.all([from.close(), to.close()]);
    });

    it('receives of IPv6 only solicitations and advertisements', async () => {
      const [from, to] = [new PacketSocket(here, 'ndp'), new PacketSocket(there, 'ndp')];
      const others = [ipv6(58, 134), ipv6(58, 137), ipv6(58, 128), ipv6(17, 135), ipv6(6, 136)];
      for (const body of [...others, ipv6(58, 135), ...others, ipv6(58, 136)]) from.send(frame(0x86dd, body));
      const types = (await received(to, 2)).filter((one) => one[6] === LOCAL[0]).map((one) => one[54]);
      assert.deepEqual(types, [135, 136]);
      await Promise.all([from.close(), to.close()]);
    });

    it('returns no more than 64 frames at once, and the oldest first', async () => {
      const [from, to] = [new PacketSocket(here, 'arp'), new PacketSocket(there, 'arp')];
      for (let i = 0; i < 100; i++) from.send(frame(0x0806, Uint8Array.of(i)));
      await sleep(20);
      const first = to.receive();
      assert.equal(first.length, 64);
      const all = [...first, ...to.receive()].map((one) => one[14]);
      assert.deepEqual(
        all,
        Array.from({ length: 100 }, (_, i) => i),
      );
      await Promise.all([from.close(), to.close()]);
    });

    it('closes beside this thread, which the kernel would hold up', async () => {
      const socket = new PacketSocket(there, 'arp');
      const closed = socket.close().then(() => 'the socket');
      // Promises go on before work of other threads is looked at; work done in the call is first.
      const turns = Promise.resolve()
        .then(() => null)
        .then(() => null)
        .then(() => 'the thread');
      assert.equal(await Promise.race([closed, turns]), 'the thread');
      assert.equal(await closed, 'the socket');
    });

    it('refuses wrong arguments, links that are not there or down, and calls after close', async () => {
      assert.throws(() => new PacketSocket(0, 'arp'), RangeError);
      assert.throws(() => new PacketSocket(here, 'ip' as never), TypeError);
      assert.throws(() => new PacketSocket(9_999, 'arp'), { code: 'ENODEV' });
      const socket = new PacketSocket(here, 'arp');
      assert.throws(() => socket.send('text' as never), TypeError);
      for (const length of [13, 1515]) assert.throws(() => socket.send(new Uint8Array(length)), RangeError);
      ip('link', 'set', 'here', 'down');
      assert.throws(() => socket.send(frame(0x0806, new Uint8Array())), { code: 'ENETDOWN' });
      await Promise.all([socket.close(), socket.close()]);
      assert.throws(() => socket.receive(), { code: 'CLOSED' });
    });
  });
});
