import assert from 'node:assert/strict';
import { neighbourAnnouncement, neighbourClaim, neighbourProbe } from './conflict-frames.ts';

const MAC = Buffer.from('0e0000000001', 'hex');
const V6 = '2001:db8::50';
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
/** Without what is separated for the eye. */
const joined = (...words: readonly string[]): string => words.join('').replaceAll(' ', '');

describe('frames of neighbour discovery', () => {
  it('ask by the group of the address, and announce it to all nodes', () => {
    assert.equal(
      hex(neighbourProbe(MAC, V6)),
      joined(
        '3333ff000050 0e0000000001 86dd 60000000 0018 3a ff',
        '00000000000000000000000000000000 ff0200000000000000000001ff000050',
        '87 00 4c4f 00000000 20010db8000000000000000000000050',
      ),
    );
    assert.equal(
      hex(neighbourAnnouncement(MAC, V6)),
      joined(
        '333300000001 0e0000000001 86dd 60000000 0020 3a ff',
        '20010db8000000000000000000000050 ff020000000000000000000000000001',
        '88 00 ec8c 20000000 20010db8000000000000000000000050 0201 0e0000000001',
      ),
    );
  });

  it('are claims if they advertise the address', () => {
    const frame = neighbourAnnouncement(MAC, V6);
    assert.equal(hex(neighbourClaim(frame, V6) ?? new Uint8Array()), hex(MAC));
    assert.equal(neighbourClaim(frame, '2001:db8::51'), null);
    assert.equal(neighbourClaim(frame.subarray(0, 70), V6), null, 'cut off');
    assert.equal(neighbourClaim(neighbourProbe(MAC, V6), V6), null, 'only asks');
  });
});
