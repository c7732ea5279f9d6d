import assert from 'node:assert/strict';
import { arpAnnouncements, arpClaim, arpProbe } from './conflict-frames.ts';

const MAC = Buffer.from('0e0000000001', 'hex');
const V4 = '192.0.2.50';
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
/** Without what is separated for the eye. */
const joined = (...words: readonly string[]): string => words.join('').replaceAll(' ', '');

describe('frames of ARP', () => {
  it('ask without claiming the address, and announce it as request and as reply', () => {
    const ethernet = 'ffffffffffff 0e0000000001 0806 0001 0800 06 04';
    const [own, none] = ['0e0000000001 c0000232', '0e0000000001 00000000'];
    assert.equal(hex(arpProbe(MAC, V4)), joined(ethernet, '0001', none, '000000000000 c0000232'));
    assert.deepEqual(arpAnnouncements(MAC, V4).map(hex), [
      joined(ethernet, '0001', own, '000000000000 c0000232'),
      joined(ethernet, '0002', own, own),
    ]);
  });

  it('are claims if the sender has the address', () => {
    for (const frame of arpAnnouncements(MAC, V4)) {
      assert.equal(hex(arpClaim(frame, V4) ?? new Uint8Array()), hex(MAC));
      assert.equal(arpClaim(frame, '192.0.2.5'), null);
      assert.equal(arpClaim(frame.subarray(0, 41), V4), null, 'cut off');
    }
    assert.equal(arpClaim(arpProbe(MAC, V4), V4), null, 'only asks');
  });
});
