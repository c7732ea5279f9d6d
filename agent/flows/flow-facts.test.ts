import assert from 'node:assert/strict';
import { parseAddress } from '../../lib/net/address.ts';
import { packAddress } from '../../lib/net/member-set.ts';
import { FlowFacts } from './flow-facts.ts';

const FACTS = new FlowFacts({
  addresses: [
    { address: '192.0.2.1', netmask: '255.255.255.0' },
    { address: '198.51.100.0', netmask: '255.255.255.254' },
    { address: 'fd00::1', netmask: 'ffff:ffff:ffff:ffff::' },
  ],
  links: [],
  routes: null,
  known: new Map([['10.0.0.9', 8]]),
});

function which(test: 'isOwn' | 'isDelivered', texts: readonly string[]): string[] {
  return texts.filter((text) => {
    const address = parseAddress(text);
    assert.ok(address !== null);
    // Not at the begin: what stands before it is another address.
    const bytes = Buffer.concat([Buffer.alloc(4, 127), packAddress(address)]);
    return FACTS[test](bytes, 4, address.family);
  });
}

describe('the facts of a machine', () => {
  it('have its own addresses, and loopback ones', () => {
    const own = ['192.0.2.1', '127.0.0.53', '::1', 'fd00::1'];
    assert.deepEqual(which('isOwn', [...own, '192.0.2.2', '128.0.0.1', '::2', 'fd00::2']), own);
  });

  it('have what is delivered here: also multicast, and broadcast of networks that have one', () => {
    const here = [
      '192.0.2.1',
      '192.0.2.255',
      '255.255.255.255',
      '224.0.0.1',
      '239.255.0.1',
      'ff02::1',
      'fd00::1',
    ];
    const elsewhere = ['192.0.2.254', '198.51.100.1', '240.0.0.1', '223.0.0.1', 'fe80::1', '10.255.255.255'];
    assert.deepEqual(which('isDelivered', [...here, ...elsewhere]), here);
  });

  it('have no link group of a peer without routes, but for those that are known otherwise', () => {
    assert.deepEqual(
      ['10.0.0.9', '10.0.0.10'].map((peer) => FACTS.groupOf(peer)),
      [8, 0],
    );
  });
});
