import assert from 'node:assert/strict';
import type { NetworkInterfaceInfo } from 'node:os';
import { interfacesOnNetworks } from './on-network.ts';

const info = (cidr: string): NetworkInterfaceInfo =>
  ({
    address: cidr.split('/')[0],
    cidr,
    family: cidr.includes(':') ? 'IPv6' : 'IPv4',
  }) as NetworkInterfaceInfo;

describe('interfacesOnNetworks', () => {
  it('counts only the addresses of the Node object', () => {
    const interfaces = {
      uplink: [info('172.18.0.2/16')],
      'second:1': [info('fd00::2/64'), info('10.0.0.1/32')],
      pod: [info('10.244.0.1/24')],
      none: [],
    };
    assert.deepEqual([...interfacesOnNetworks(interfaces, ['172.18.0.2', '10.0.0.1'])], ['uplink', 'second']);
  });

  it('counts every address in a network where no interface has one of the Node object', () => {
    const interfaces = { uplink: [info('172.18.0.2/16')], pod: [info('10.244.0.1/32')] };
    for (const declared of [[], ['203.0.113.7']]) {
      assert.deepEqual([...interfacesOnNetworks(interfaces, declared)], ['uplink']);
    }
  });

  it('counts every address in a network while the Node object is not known', () => {
    const found = interfacesOnNetworks(
      {
        v4: [info('172.18.0.2/16')],
        v6: [info('fd00::2/64')],
        both: [info('10.0.0.1/32'), info('10.0.0.2/31')],
        'alias:1': [info('10.1.0.1/24')],
        ptp: [info('10.244.0.1/32'), info('fd00::1/128'), info('fe80::1/64')],
        local: [info('169.254.1.1/16'), info('fe80::2/64')],
        none: [],
      },
      null,
    );
    assert.deepEqual([...found].sort(), ['alias', 'both', 'v4', 'v6']);
  });
});
