import assert from 'node:assert/strict';
import { EXAMPLE } from '../../../test/generate/netstate.ts';
import { netstateText } from './net-object.ts';

// test/kernel/egress-netstate.test.ts types such commands.
describe('netstateText', () => {
  it('is the commands that make each object, what is needed first', () => {
    assert.equal(
      netstateText(EXAMPLE),
      `\
ip link add nodewall-egress address 0e:00:00:00:00:01 mtu 1450 group 10 up type vxlan id 7412 dstport 7790 local 10.0.0.1 nolearning noudpcsum
sysctl -w net/ipv4/conf/nodewall-egress/rp_filter=2
ip addr add 169.254.74.12/32 dev nodewall-egress noprefixroute
bridge fdb add 0e:00:00:00:00:02 dev nodewall-egress dst 10.0.0.2
ip neigh add fe80::c00:ff:fe00:2 lladdr 0e:00:00:00:00:02 dev nodewall-egress nud permanent
ip nexthop add id 1853292546 via fe80::c00:ff:fe00:2 dev nodewall-egress proto 119
ip nexthop add id 1853292545 group 1853292546 proto 119
ip route add default nhid 1853292545 table 1853292545 proto 119
ip -6 route add fd00:10:244::7/128 nhid 1853292546 table 1853292800 proto 119
ip rule add pref 79 nop protocol kernel
ip rule add pref 71 fwmark 0x1000000/0x7f000000 lookup 1853292545 protocol kernel
ip -6 rule add pref 71 fwmark 0x40000000/0x40000000 lookup 1853292800 protocol kernel
ip rule add pref 70 fwmark 0x0/0x7f000000 goto 79 protocol kernel
`,
    );
  });

  it('has each form of an object', () => {
    const [link] = EXAMPLE.links;
    assert.ok(link?.kind === 'vxlan');
    const text = netstateText({
      peers: [],
      neighbours: [],
      nexthops: [],
      routes: [],
      sysctls: [],
      links: [{ ...link, local: 'fd00::1' }],
      addresses: [{ link: 'nodewall-egress', address: '2001:db8::7', prefixLength: 128 }],
      rules: [{ family: 6, priority: 70, action: 'goto', target: 79, mark: 1, mask: 3, invert: true }],
    });
    assert.deepEqual(text.split('\n').slice(0, -1), [
      'ip link add nodewall-egress address 0e:00:00:00:00:01 mtu 1450 group 10 up type vxlan id 7412 dstport 7790 local fd00::1 nolearning',
      'ip addr add 2001:db8::7/128 dev nodewall-egress noprefixroute nodad preferred_lft 0',
      'ip -6 rule add pref 70 not fwmark 0x1/0x3 goto 79 protocol kernel',
    ]);
  });
});
