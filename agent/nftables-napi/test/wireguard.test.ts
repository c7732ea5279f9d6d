import assert from 'node:assert/strict';
import { endianness } from 'node:os';
import { familyRequest, toFamilyId } from '../lib/genetlink/family.ts';
import {
  deviceDump,
  deviceRequest,
  peersRequest,
  removalRequest,
  toDevice,
} from '../lib/genetlink/wireguard.ts';
import { netlinkMessages } from '../lib/netlink-message.ts';

/** By hand from linux/wireguard.h and linux/genetlink.h, for family 30 and link 5. */
const REQUEST = {
  family: '24000000100001000000000000000000030200000e000200776972656775617264000000',
  device:
    '580000001e000100000000000000000001010000080001000500000024000300070707070707070707070707070707070707070707070707070707070707070706000600701e000008000700230100000800050001000000',
  peers:
    '000100001e0001000000000000000000010100000800010005000000e40008806400008024000100010101010101010101010101010101010101010101010101010101010101010108000300020000001400040002001e700a0000020000000000000000200009801c0000800600010002000000080002000a00000205000300200000007c0000802400010002020202020202020202020202020202020202020202020202020202020202020800030002000000200004000a001e7000000000fd000000000000000000000000000002000000002c00098028000080060001000a00000014000200fd0000000000000000000000000000020500030080000000',
  remove:
    '500000001e000100000000000000000001010000080001000500000034000880300000802400010001010101010101010101010101010101010101010101010101010101010101010800030001000000',
  dump: '1c0000001e0001030000000000000000000100000800010005000000',
} as const;
/** Two messages: the first peer has a further address in the second one. */
const REPLY =
  '3c0100001e00020000000000000000000001000006000600701e0000080007002301000008000100050000000800020077673000240003000707070707070707070707070707070707070707070707070707070707070707240004000909090909090909090909090909090909090909090909090909090909090909c0000880bc0000802400010001010101010101010101010101010101010101010101010101010101010101012400020000000000000000000000000000000000000000000000000000000000000000001400060000f1536500000000050000000000000006000500000000000c00080009000000000000000c000700080000000000000008000a00010000001400040002001e700a0000020000000000000000200009801c0000800600010002000000080002000a0000020500030020000000f40000001e000200000000000000000000010000e0000880540000802400010001010101010101010101010101010101010101010101010101010101010101012c00098028000080060001000a00000014000200fd00000000000000000000000000000205000300800000008800008024000100020202020202020202020202020202020202020202020202020202020202020224000200000000000000000000000000000000000000000000000000000000000000000014000600000000000000000000000000000000000600050000000000200004000a001e7000000000fd00000000000000000000000000000200000000';
const FAMILY =
  '34000000100000000000000000000000010200000e000200776972656775617264000000060001001e0000000800030001000000';

const bytes = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, 'hex'));
const hex = (data: Uint8Array): string => Buffer.from(data).toString('hex');
const key = (value: number): Uint8Array => new Uint8Array(32).fill(value);
const V4 = Uint8Array.of(10, 0, 0, 2);
const V6 = bytes('fd000000000000000000000000000002');
const port = 7792;

describe('WireGuard over generic netlink', () => {
  before(function () {
    if (endianness() !== 'LE') this.skip();
  });

  it('is asked for by name', () => {
    assert.equal(hex(familyRequest('wireguard')), REQUEST.family);
    assert.deepEqual([...netlinkMessages(bytes(FAMILY + REPLY))].map(toFamilyId), [30, null, null]);
  });

  it('sets device and peers of both families, and removes peers', () => {
    const device = { privateKey: key(7), port, mark: 0x123 };
    assert.equal(hex(deviceRequest(30, 5, device, true)), REQUEST.device);
    const peers = [
      { publicKey: key(1), endpoint: V4, port, allowed: [{ address: V4, prefixLength: 32 }] },
      { publicKey: key(2), endpoint: V6, port, allowed: [{ address: V6, prefixLength: 128 }] },
    ];
    assert.equal(hex(peersRequest(30, 5, peers)), REQUEST.peers);
    assert.equal(hex(removalRequest(30, 5, [key(1)])), REQUEST.remove);
    assert.equal(hex(deviceDump(30, 5)), REQUEST.dump);
  });

  it('reads a device whose peer goes on in the next message, without the private key', () => {
    const device = toDevice(netlinkMessages(bytes(REPLY)));
    assert.deepEqual(device, {
      ...{ publicKey: key(9), port, mark: 0x123 },
      peers: [
        {
          ...{ publicKey: key(1), endpoint: V4, port, handshake: 1_700_000_000 },
          allowed: [
            { address: V4, prefixLength: 32 },
            { address: V6, prefixLength: 128 },
          ],
        },
        { publicKey: key(2), endpoint: V6, port, handshake: 0, allowed: [] },
      ],
    });
  });

  it('refuses keys of another length', () => {
    const device = { privateKey: new Uint8Array(31), port, mark: 0 };
    assert.throws(() => deviceRequest(30, 5, device, true), RangeError);
    assert.throws(() => removalRequest(30, 5, [new Uint8Array(0)]), RangeError);
  });

  it('that is cut off or damaged does no harm', () => {
    const whole = bytes(REPLY);
    assert.equal(toDevice([]), null);
    for (let length = 0; length < whole.length; length++) {
      assert.doesNotThrow(() => toDevice(netlinkMessages(whole.slice(0, length))));
    }
    for (let i = 16; i < whole.length; i++) {
      for (const value of [0, 1, 0x7f, 0xff]) {
        const damaged = bytes(REPLY);
        damaged[i] = value;
        assert.doesNotThrow(() => toDevice(netlinkMessages(damaged)));
      }
    }
  });
});
