import assert from 'node:assert/strict';
import { endianness } from 'node:os';
import { deleteRequest, toConntrackEntry } from '../lib/conntrack-entry.ts';
import { netlinkMessages } from '../lib/netlink-message.ts';

/** Captured from Linux 6.18 on x86-64: what `conntrack -I` made. */
const TCP =
  'f000000000010200010000000e6a0000020000003400018014000180080001000a000001080002000a0000021c0002800500010006000000060002000fa0000006000300005000003400028014000180080001000a000009080002000a0000011c0002800500010006000000060002001f900000060003000fa00000080003000000000e080008000000000008000c007afff9d208000b00000000010800070000000257300004802c000180050001000300000005000200000000000500030000000000060004000a000000060005000a0000001c001880080001000000000008000200000000000800030000000000';
const ICMP =
  'd000000000010200010000000e6a0000020000003c00018014000180080001000a000003080002000a0000042400028005000100010000000600040000630000050005000800000005000600000000003c00028014000180080001000a000004080002000a0000032400028005000100010000000600040000630000050005000000000005000600000000000800030000000008080008000000000008000c00303d744b08000b000000000108000700000002571c001880080001000000000008000200000000000800030000000000';
const UDP6 =
  'f800000000010200010000000e6a00000a0000004c0001802c00018014000300fd00000000000000000000000000000114000400fd0000000000000000000000000000021c00028005000100110000000600020014e9000006000300003500004c0002802c00018014000300fd00000000000000000000000000000214000400fd0000000000000000000000000000011c000280050001001100000006000200003500000600030014e9000006001200000700000800030000000008080008000000000008000c00967981c308000b000000000108000700000002571c001880080001000000000008000200000000000800030000000000';

const bytes = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, 'hex'));
const entries = (data: Uint8Array) => [...netlinkMessages(data)].map(toConntrackEntry);
const text = (address: Uint8Array): string => Buffer.from(address).toString('hex');

describe('tracked connections', () => {
  before(function () {
    if (endianness() !== 'LE') this.skip();
  });

  it('are read with both directions, status and TCP state', () => {
    const [tcp, icmp, udp, ...more] = entries(bytes(TCP + ICMP + UDP6));
    assert.deepEqual(more, []);
    assert.ok(tcp && icmp && udp);
    assert.deepEqual([tcp.family, tcp.protocol, tcp.status, tcp.tcpState], [4, 6, 14, 3]);
    assert.deepEqual([text(tcp.original.destination), tcp.original.destinationPort], ['0a000002', 80]);
    assert.deepEqual([text(tcp.reply.source), tcp.reply.sourcePort], ['0a000009', 8080]);
    assert.deepEqual([icmp.protocol, icmp.original.icmpType, icmp.original.icmpCode], [1, 8, 0]);
    assert.deepEqual([icmp.original.sourcePort, icmp.tcpState], [null, null]);
    assert.deepEqual([udp.family, udp.protocol, udp.original.sourcePort], [6, 17, 5353]);
    assert.equal(text(udp.original.source), 'fd000000000000000000000000000001');
    const [marked] = entries(bytes(UDP6.replace('0800080000000000', '080008002d000000')));
    assert.deepEqual([udp.mark, marked?.mark], [0, 0x2d000000]);
    const labels = `${'00'.repeat(15)}40`;
    const [labelled] = entries(bytes(`0c010000${UDP6.slice(8)}14001600${labels}`));
    assert.deepEqual([udp.labels.length, text(labelled?.labels ?? udp.labels)], [0, labels]);
  });

  it('are deleted by tuple, zone and id', () => {
    const [entry] = entries(bytes(UDP6));
    assert.ok(entry);
    const request = Buffer.from(deleteRequest(entry)).toString('hex');
    assert.equal(request.slice(8, 12), '0201', 'IPCTNL_MSG_CT_DELETE');
    assert.equal(request.slice(32, 34), '0a', 'AF_INET6');
    for (const attribute of ['4c000180', '0600120000070000', '08000c00967981c3'])
      assert.ok(request.includes(attribute), attribute);
  });

  it('that are cut off, of other types, or random bytes are none', () => {
    const whole = bytes(TCP);
    for (let length = 0; length < whole.length; length++) {
      assert.deepEqual(entries(whole.slice(0, length)), []);
    }
    const other = bytes(TCP);
    other[4] = 2;
    assert.deepEqual(entries(other), [null]);
    for (let i = 20; i < whole.length; i++) {
      for (const value of [0, 1, 0x7f, 0xff]) {
        const damaged = bytes(TCP);
        damaged[i] = value;
        assert.doesNotThrow(() => entries(damaged));
      }
    }
  });
});
