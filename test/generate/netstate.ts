import fc from 'fast-check';
import {
  type NetNexthop,
  type NetRoute,
  type NetRule,
  type Netstate,
  OWN_NETWORK,
} from '../../apis/egress/netstate.ts';

const LINK = 'nodewall-egress';
const MASK = 0x7f00_0000;
const [TABLES] = OWN_NETWORK.tables;
const [NEXTHOPS] = OWN_NETWORK.nexthops;
const PEERS = 5;
const SLOTS = 6;

interface Choices {
  readonly hasLink: boolean;
  readonly isV6: boolean;
  readonly mac: number;
  readonly mtu: number;
  readonly group: number;
  readonly looseFilter: boolean;
  /** Where each peer's tunnel ends; 0: there is no such peer. */
  readonly peers: readonly number[];
  /** Each slot's peer, modulo their number; 0: there is no such slot. `inGroup`: by a group. */
  readonly slots: readonly { readonly peer: number; readonly inGroup: boolean }[];
  /** Answers to pods; `isHere`: not by the tunnel. */
  readonly pods: readonly { readonly number: number; readonly isHere: boolean }[];
  readonly addresses: readonly number[];
}

/** Network configurations with few distinct names and numbers, so that two have much in common. */
export const netstates: fc.Arbitrary<Netstate> = fc
  .record({
    hasLink: fc.integer({ min: 0, max: 9 }).map((number) => number > 0),
    isV6: fc.integer({ min: 0, max: 4 }).map((number) => number === 0),
    mac: fc.integer({ min: 1, max: 2 }),
    mtu: fc.constantFrom(1400, 1450),
    group: fc.constantFrom(10, 11),
    looseFilter: fc.boolean(),
    peers: fc.array(fc.integer({ min: 0, max: 3 }), { minLength: PEERS, maxLength: PEERS }),
    slots: fc.array(fc.record({ peer: fc.integer({ min: 0, max: PEERS }), inGroup: fc.boolean() }), {
      minLength: SLOTS,
      maxLength: SLOTS,
    }),
    pods: fc.uniqueArray(fc.record({ number: fc.integer({ min: 1, max: 5 }), isHere: fc.boolean() }), {
      maxLength: 3,
      selector: ({ number }) => number,
    }),
    addresses: fc.uniqueArray(fc.integer({ min: 1, max: 4 }), { maxLength: 3 }),
  })
  .map(toNetstate);

function toNetstate(choices: Choices): Netstate {
  const { hasLink, isV6, mac, mtu, group, looseFilter, addresses } = choices;
  const taken = addresses.flatMap((number) => [
    { link: LINK, address: `192.0.2.${number}`, prefixLength: 32 },
    { link: LINK, address: `2001:db8::${number}`, prefixLength: 128 },
  ]);
  const nothing = { links: [], peers: [], neighbours: [], nexthops: [], routes: [], rules: [], sysctls: [] };
  if (!hasLink) return { ...nothing, addresses: [] };
  const remote = (number: number): string => (isV6 ? `fd00::${number}` : `10.0.0.${number}`);
  const { id, port } = OWN_NETWORK.vxlan;
  const peers = choices.peers.flatMap((end, i) => (end === 0 ? [] : [{ number: i + 1, end: 10 * end + i }]));
  return {
    links: [{ kind: 'vxlan', name: LINK, mac: macOf(mac), group, mtu, id, port, local: remote(mac) }],
    peers: [],
    addresses: [...taken, { link: LINK, address: '169.254.74.12', prefixLength: 32 }],
    neighbours: peers.flatMap(({ number, end }) => [
      { kind: 'fdb', link: LINK, mac: macOf(number + 16), remote: remote(end) } as const,
      { kind: 'neighbour', link: LINK, address: viaOf(number), mac: macOf(number + 16) } as const,
    ]),
    ...ways(
      choices,
      peers.map(({ number }) => number),
    ),
    sysctls: [
      { path: `net/ipv4/conf/${LINK}/rp_filter`, value: looseFilter ? '2' : '1' },
      { path: `net/ipv6/conf/${LINK}/disable_ipv6`, value: '0' },
    ],
  };
}

function ways(
  { slots, pods }: Choices,
  peers: readonly number[],
): Pick<Netstate, 'nexthops' | 'routes' | 'rules'> {
  const nexthops: NetNexthop[] = peers.map((number) => ({
    id: NEXTHOPS + 100 + number,
    via: viaOf(number),
    link: LINK,
  }));
  const routes: NetRoute[] = [];
  const rules: NetRule[] = [];
  slots.forEach(({ peer, inGroup }, i) => {
    const number = peers[peer % Math.max(peers.length, 1)];
    if (peer === 0 || number === undefined) return;
    const id = NEXTHOPS + i + 1;
    nexthops.push(
      inGroup ? { id, group: [NEXTHOPS + 100 + number] } : { id, via: viaOf(number), link: LINK },
    );
    for (const family of [4, 6] as const) {
      const table = TABLES + i + 1;
      routes.push({ family, table, destination: family === 4 ? '0.0.0.0/0' : '::/0', nexthop: id });
      rules.push({ family, priority: 71, action: 'table', table, mark: (i + 1) << 24, mask: MASK });
    }
  });
  const [first] = peers;
  if (first !== undefined) {
    const pod = { table: TABLES + 256, nexthop: NEXTHOPS + 100 + first };
    for (const { number, isHere } of pods) {
      const way = isHere ? { ...pod, nexthop: null } : pod;
      routes.push({ ...way, family: 4, destination: `10.244.0.${number}/32` });
      routes.push({ ...way, family: 6, destination: `fd00:10:244::${number}/128` });
    }
  }
  if (rules.length > 0) {
    rules.push({ family: 4, priority: 70, action: 'goto', target: 79, mark: 0, mask: MASK });
    rules.push({ family: 4, priority: 79, action: 'nop' });
    rules.push({
      family: 6,
      priority: 70,
      action: 'goto',
      target: 79,
      mark: 1 << 24,
      mask: MASK,
      invert: true,
    });
    rules.push({ family: 6, priority: 79, action: 'nop' });
  }
  return { nexthops, routes, rules };
}

function macOf(number: number): string {
  return `0e:00:00:00:00:${number.toString(16).padStart(2, '0')}`;
}

function viaOf(number: number): string {
  return `fe80::c00:ff:fe00:${(number + 16).toString(16)}`;
}

const [TABLE] = OWN_NETWORK.tables;
const [NEXTHOP] = OWN_NETWORK.nexthops;

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
