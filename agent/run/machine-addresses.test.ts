import assert from 'node:assert/strict';
import { OWN_NETWORK } from '../../apis/egress/netstate.ts';
import { toMemberSet } from '../../lib/net/member-set.ts';
import { hostAddresses } from './machine-addresses.ts';

const at = (...addresses: string[]) => addresses.map((address) => ({ address, internal: false }));

describe('host addresses', () => {
  it("are the machine's addresses without loopback and link-local ones", () => {
    const found = hostAddresses({
      lo: [
        { address: '127.0.0.1', internal: true },
        { address: '::1', internal: true },
      ],
      eth0: at('192.0.2.10', '2001:DB8::1', 'fe80::1', '169.254.7.7'),
      eth1: at('10.0.0.1', '192.0.2.10'),
      none: undefined,
    });
    assert.deepEqual(found, ['10.0.0.1', '192.0.2.10', '2001:db8::1']);
  });

  it('exclude addresses of Services', () => {
    assert.deepEqual(hostAddresses({ 'kube-ipvs0': at('10.96.0.1'), eth0: at('192.0.2.1') }), ['192.0.2.1']);
  });

  it('exclude floating addresses of egress gateways', () => {
    const floating = toMemberSet([], ['192.0.2.50', '2001:db8::50']);
    const interfaces = {
      'nodewall-eip': at('203.0.113.9'),
      eth0: at('192.0.2.50', '192.0.2.1', '2001:db8::50'),
    };
    assert.deepEqual(hostAddresses(interfaces, floating), ['192.0.2.1']);
  });

  it("exclude those of nodewall's own devices", () => {
    for (const link of Object.keys(OWN_NETWORK.links))
      assert.deepEqual(
        hostAddresses({ [link]: at('fd6e:6f64:6577:6c6c:c00:ff:fe00:1'), eth0: at('192.0.2.1') }),
        ['192.0.2.1'],
      );
  });

  it('are at most 256', () => {
    const many = Array.from({ length: 300 }, (_, i) => `10.0.${i >> 8}.${i & 255}`);
    assert.equal(hostAddresses({ eth0: at(...many, '2001:db8::1') }).length, 256);
  });
});
