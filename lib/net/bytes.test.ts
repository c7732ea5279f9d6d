import assert from 'node:assert/strict';
import { internetChecksum } from './bytes.ts';

describe('internetChecksum', () => {
  it('is that of RFC 1071, section 3', () => {
    const bytes = Uint8Array.of(0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7);
    assert.equal(internetChecksum(bytes), ~0xddf2 & 0xffff);
  });

  it('takes a missing last byte as 0', () => {
    assert.equal(internetChecksum(Uint8Array.of(0x12, 0x34, 0x56)), ~(0x1234 + 0x5600) & 0xffff);
  });

  it('is 0 of bytes with their checksum in them', () => {
    // The header of an IPv4 packet.
    const header = Buffer.from('45000073000040004011b861c0a80001c0a800c7', 'hex');
    assert.equal(internetChecksum(header), 0);
  });
});
