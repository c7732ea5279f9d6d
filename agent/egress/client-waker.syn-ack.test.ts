import assert from 'node:assert/strict';
import type { ConntrackTuple } from 'nftables-napi';
import { parseAddress } from '../../lib/net/address.ts';
import { internetChecksum } from '../../lib/net/bytes.ts';
import { packAddress } from '../../lib/net/member-set.ts';
import { synAck } from './client-waker.ts';

function tuple(source: string, destination: string, ports: Partial<ConntrackTuple> = {}): ConntrackTuple {
  const [from, to] = [source, destination].map((text) => {
    const address = parseAddress(text);
    assert.ok(address !== null);
    return packAddress(address);
  }) as [Uint8Array, Uint8Array];
  return {
    source: from,
    destination: to,
    sourcePort: 443,
    destinationPort: 51_000,
    icmpType: null,
    icmpCode: null,
    ...ports,
  };
}

describe('synAck', () => {
  it('is a SYN with ACK from the one end to the other, over IPv4', () => {
    const packet = synAck(4, tuple('203.0.113.5', '10.244.1.7'));
    assert.ok(packet !== null);
    const bytes = Buffer.from(packet);
    assert.equal(bytes.toString('hex', 0, 10), '45000028000000004006');
    assert.equal(internetChecksum(bytes.subarray(0, 20)), 0);
    assert.equal(bytes.toString('hex', 12, 20), 'cb0071050af40107');
    assert.equal(bytes.toString('hex', 20, 36), `01bbc738${'00000000'.repeat(2)}50120000`);
    const pseudo = Buffer.concat([bytes.subarray(12, 20), Uint8Array.of(0, 6, 0, 20), bytes.subarray(20)]);
    assert.equal(internetChecksum(pseudo), 0);
  });

  it('over IPv6', () => {
    const packet = synAck(6, tuple('2001:db8:f::100', 'fd00:10:244::7'));
    assert.ok(packet !== null);
    const bytes = Buffer.from(packet);
    assert.equal(bytes.toString('hex', 0, 8), '6000000000140640');
    assert.equal(bytes.toString('hex', 8, 24), '20010db8000f00000000000000000100');
    assert.equal(bytes.toString('hex', 24, 40), 'fd000010024400000000000000000007');
    const pseudo = Buffer.concat([
      ...[bytes.subarray(8, 40), Uint8Array.of(0, 0, 0, 20, 0, 0, 0, 6), bytes.subarray(40)],
    ]);
    assert.equal(internetChecksum(pseudo), 0);
  });

  it('is nothing without ports', () => {
    assert.equal(synAck(4, tuple('203.0.113.5', '10.244.1.7', { sourcePort: null })), null);
  });
});
