import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { EchoSocket } from '../lib/index.ts';
import { inNamespace, ip } from './netns.ts';

const DATA = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8);
const LOOPBACK = { 4: Uint8Array.of(127, 0, 0, 1), 6: Uint8Array.of(...Array(15).fill(0), 1) } as const;

inNamespace(import.meta.filename, () => {
  before(() => {
    ip('link', 'set', 'lo', 'up');
    ip('link', 'add', 'one', 'type', 'veth', 'peer', 'name', 'two');
  });

  for (const family of [4, 6] as const) {
    it(`EchoSocket: a reply of the kernel over IPv${family}, with what was asked`, () => {
      const [bound, connected] = [
        new EchoSocket(family, { device: 'lo' }),
        new EchoSocket(family, { peer: LOOPBACK[family] }),
      ];
      bound.request({ address: LOOPBACK[family], identifier: 77, sequence: 65_535, data: DATA });
      for (const socket of [bound, connected]) {
        const [reply, ...more] = socket.replies();
        const { age, ...rest } = reply ?? { age: -1 };
        assert.deepEqual(rest, { address: LOOPBACK[family], identifier: 77, sequence: 65_535, data: DATA });
        assert.deepEqual(more, []);
        assert.ok(age >= 0 && age < 1000, `${age} ms`);
        assert.deepEqual(socket.replies(), []);
        socket.close();
        assert.throws(() => socket.replies(), { code: 'CLOSED' });
      }
    });
  }

  for (const family of [4, 6] as const) {
    it(`EchoSocket: a datagram socket hears replies to its own requests alone, IPv${family}`, () => {
      assert.throws(() => new EchoSocket(family, { isDatagram: true }), { code: 'EACCES' });
      writeFileSync('/proc/sys/net/ipv4/ping_group_range', '0 0');
      const [own, other, raw] = [
        new EchoSocket(family, { peer: LOOPBACK[family], isDatagram: true }),
        new EchoSocket(family, { peer: LOOPBACK[family], isDatagram: true }),
        new EchoSocket(family),
      ];
      own.request({ address: LOOPBACK[family], identifier: 77, sequence: 5, data: DATA });
      const [{ age, identifier, ...rest } = assert.fail(), ...more] = own.replies();
      assert.deepEqual([rest, more], [{ address: LOOPBACK[family], sequence: 5, data: DATA }, []]);
      assert.deepEqual(
        raw.replies().map((reply) => reply.identifier),
        [identifier],
        'the kernel chose it',
      );
      assert.deepEqual(other.replies(), []);
      for (const socket of [own, other, raw]) socket.close();
      writeFileSync('/proc/sys/net/ipv4/ping_group_range', '1 0');
    });
  }

  it('EchoSocket: hears nothing of other devices and addresses', () => {
    const other = new EchoSocket(6, { device: 'one' });
    const peer = new EchoSocket(4, { peer: Uint8Array.of(127, 0, 0, 2) });
    const sender = new EchoSocket(6);
    const sender4 = new EchoSocket(4);
    const echo = { identifier: 1, sequence: 1, data: DATA };
    sender.request({ ...echo, address: LOOPBACK[6] });
    sender4.request({ ...echo, address: LOOPBACK[4] });
    assert.equal(sender.replies().length, 1);
    assert.deepEqual([...other.replies(), ...peer.replies()], []);
    for (const socket of [other, peer, sender, sender4]) socket.close();
  });

  it('EchoSocket: says that the device is gone, or another one', () => {
    assert.throws(() => new EchoSocket(6, { device: 'nothing' }), { code: 'ENODEV' });
    const socket = new EchoSocket(6, { device: 'one' });
    ip('link', 'del', 'one');
    assert.throws(() => socket.replies(), { code: 'ENODEV' });
    ip('link', 'add', 'one', 'type', 'veth', 'peer', 'name', 'two');
    assert.throws(() => socket.replies(), { code: 'ENODEV' });
    socket.close();
  });

  it('EchoSocket: refuses wrong arguments', () => {
    assert.throws(() => new EchoSocket(5 as 4), RangeError);
    assert.throws(() => new EchoSocket(4, { device: 'a-name-that-is-too-long' }), RangeError);
    assert.throws(() => new EchoSocket(6, { peer: LOOPBACK[4] }), TypeError);
    const socket = new EchoSocket(4);
    const echo = { address: LOOPBACK[4], identifier: 1, sequence: 1, data: DATA };
    assert.throws(() => socket.request({ ...echo, address: LOOPBACK[6] }), TypeError);
    assert.throws(() => socket.request({ ...echo, identifier: 65_536 }), RangeError);
    assert.throws(() => socket.request({ ...echo, data: new Uint8Array(65) }), RangeError);
    socket.close();
    socket.close();
  });
});
