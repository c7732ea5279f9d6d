import assert from 'node:assert/strict';
import { IpSocket } from '../lib/index.ts';
import { inNamespace, ip, nft } from './netns.ts';

/** UDP of 8 bytes, from an address that nobody has here, without a checksum over the whole. */
const PACKETS = {
  4: Buffer.from('4500001c0000000040110000c633640701020304aaaa1f4000080000', 'hex').fill(0, 10, 12),
  6: Buffer.concat([
    Buffer.from('6000000000081140', 'hex'),
    ...['20010db8000f00000000000000000007', '20010db8000a00000000000000000002'].map((hex) =>
      Buffer.from(hex, 'hex'),
    ),
    Buffer.from('aaaa1f4000080000', 'hex'),
  ]),
} as const;

inNamespace(import.meta.filename, () => {
  before(() => {
    ip('link', 'add', 'one', 'type', 'veth', 'peer', 'name', 'two');
    for (const link of ['one', 'two']) ip('link', 'set', link, 'up');
    ip('addr', 'add', '1.2.3.1/24', 'dev', 'one');
    ip('addr', 'add', '2001:db8:a::1/64', 'dev', 'one', 'nodad');
    nft('add table inet t; add chain inet t out { type filter hook output priority 0; }');
    nft('add counter inet t v4; add counter inet t v6');
    nft('add rule inet t out ip saddr 198.51.100.7 ip daddr 1.2.3.4 udp dport 8000 counter name v4');
    nft('add rule inet t out ip6 saddr 2001:db8:f::7 ip6 daddr 2001:db8:a::2 udp dport 8000 counter name v6');
  });

  for (const family of [4, 6] as const) {
    it(`IpSocket: sends a packet with a foreign source over IPv${family}, through the hook output`, () => {
      const socket = new IpSocket(family);
      socket.send(PACKETS[family]);
      assert.match(nft('list', 'counter', 'inet', 't', `v${family}`), /packets 1 bytes/);
      socket.close();
      assert.throws(() => socket.send(PACKETS[family]), { code: 'CLOSED' });
      socket.close();
    });
  }

  it('IpSocket: says that there is no route, or that a rule drops it', () => {
    const socket = new IpSocket(4);
    const elsewhere = Buffer.from(PACKETS[4]);
    elsewhere.set([203, 0, 113, 9], 16);
    assert.throws(() => socket.send(elsewhere), { code: 'ENETUNREACH' });
    nft('add rule inet t out ip daddr 1.2.3.4 drop');
    assert.throws(() => socket.send(PACKETS[4]), { code: 'EPERM' });
    socket.close();
  });

  it('IpSocket: refuses wrong arguments', () => {
    assert.throws(() => new IpSocket(5 as 4), RangeError);
    const socket = new IpSocket(6);
    assert.throws(() => socket.send(PACKETS[4]), RangeError);
    assert.throws(() => socket.send(PACKETS[6].subarray(0, 39)), RangeError);
    assert.throws(() => socket.send(new Uint8Array(1501).fill(0x60)), RangeError);
    assert.throws(() => socket.send('x' as unknown as Uint8Array), TypeError);
    socket.close();
  });
});
