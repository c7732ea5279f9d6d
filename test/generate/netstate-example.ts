import { type Netstate, OWN_NETWORK } from '../../apis/egress/netstate.ts';

const LINK = 'nodewall-egress';
const [TABLE] = OWN_NETWORK.tables;
const [NEXTHOP] = OWN_NETWORK.nexthops;
const MASK = 0x7f00_0000;

/** A node with one peer, which is slot 1 for its pods, and serves one of the peer's pods. */
export const EXAMPLE: Netstate = {
  links: [
    {
      kind: 'vxlan',
      name: LINK,
      mac: '0e:00:00:00:00:01',
      group: 10,
      mtu: 1450,
      ...OWN_NETWORK.vxlan,
      local: '10.0.0.1',
    },
  ],
  peers: [],
  addresses: [{ link: LINK, address: '169.254.74.12', prefixLength: 32 }],
  neighbours: [
    { kind: 'fdb', link: LINK, mac: '0e:00:00:00:00:02', remote: '10.0.0.2' },
    { kind: 'neighbour', link: LINK, address: 'fe80::c00:ff:fe00:2', mac: '0e:00:00:00:00:02' },
  ],
  nexthops: [
    { id: NEXTHOP + 1, group: [NEXTHOP + 2] },
    { id: NEXTHOP + 2, via: 'fe80::c00:ff:fe00:2', link: LINK },
  ],
  routes: [
    { family: 4, table: TABLE + 1, destination: '0.0.0.0/0', nexthop: NEXTHOP + 1 },
    { family: 6, table: TABLE + 256, destination: 'fd00:10:244::7/128', nexthop: NEXTHOP + 2 },
  ],
  rules: [
    { family: 4, priority: 70, action: 'goto', target: 79, mark: 0, mask: MASK },
    { family: 4, priority: 71, action: 'table', table: TABLE + 1, mark: 1 << 24, mask: MASK },
    { family: 4, priority: 79, action: 'nop' },
    { family: 6, priority: 71, action: 'table', table: TABLE + 256, mark: 0x4000_0000, mask: 0x4000_0000 },
  ],
  sysctls: [{ path: `net/ipv4/conf/${LINK}/rp_filter`, value: '2' }],
};
