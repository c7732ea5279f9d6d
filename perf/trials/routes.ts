/**
 * Applies the network configuration of a node with as many slots and peers as there may be, in this
 * network namespace; then moves one slot to another peer, again and again.
 */

import { RouteSocket } from 'nftables-napi';
import { kernelSysctls } from '../../agent/egress/apply/host-settings.ts';
import { NetstateReconciler } from '../../agent/egress/apply/netstate-reconciler.ts';
import { wireguardPort } from '../../agent/egress/open-network.ts';
import { type Netstate, OWN_NETWORK } from '../../apis/egress/netstate.ts';
import { MOST_SLOTS } from '../../apis/egress/node-egress.ts';
import { median } from '../measure/statistics.ts';
import { answer, trialInput } from './trial.ts';

interface Input {
  readonly peers: number;
  readonly moves: number;
}

const LINK = 'nodewall-egress';
const [TABLES] = OWN_NETWORK.tables;
const [NEXTHOPS] = OWN_NETWORK.nexthops;
const MASK = 0x7f00_0000;
const { peers, moves } = trialInput<Input>();
const numbers = Array.from({ length: peers }, (_, i) => i + 1);
const slots = numbers.slice(0, MOST_SLOTS);

function byte(number: number): string {
  return number.toString(16).padStart(2, '0');
}

const via = (peer: number): string => `fe80::c00:ff:fe00:${peer.toString(16)}`;

/** `first`: the peer of the first slot. */
function netstate(first: number): Netstate {
  const rules = ([4, 6] as const).flatMap((family) => [
    { family, priority: 70, action: 'goto', target: 79, mark: 0, mask: MASK } as const,
    ...slots.map((slot) => {
      const mark = slot * 2 ** 24;
      return { family, priority: 71, action: 'table', table: TABLES + slot, mark, mask: MASK } as const;
    }),
    { family, priority: 79, action: 'nop' } as const,
  ]);
  return {
    links: [
      {
        kind: 'vxlan',
        name: LINK,
        mac: '0e:00:00:00:ff:ff',
        group: 10,
        mtu: 1450,
        ...OWN_NETWORK.vxlan,
        local: '10.0.0.1',
      },
    ],
    peers: [],
    addresses: [],
    neighbours: numbers.flatMap((peer) => {
      const mac = `0e:00:00:00:${byte(peer >> 8)}:${byte(peer & 255)}`;
      const remote = `10.1.${peer >> 8}.${peer & 255}`;
      return [
        { kind: 'fdb', link: LINK, mac, remote } as const,
        { kind: 'neighbour', link: LINK, address: via(peer), mac } as const,
      ];
    }),
    nexthops: slots.map((slot) => ({ id: NEXTHOPS + slot, via: via(slot === 1 ? first : slot), link: LINK })),
    routes: slots.flatMap((slot) => [
      { family: 4, table: TABLES + slot, destination: '0.0.0.0/0', nexthop: NEXTHOPS + slot },
      { family: 6, table: TABLES + slot, destination: '::/0', nexthop: NEXTHOPS + slot },
    ]),
    rules,
    sysctls: [],
  };
}

let kernel = 0;
const socket = new RouteSocket();
const reconciler = new NetstateReconciler(
  {
    links: () => socket.links(),
    addresses: () => socket.addresses(),
    neighbours: (link) => socket.neighbours(link),
    fdb: (link) => socket.fdb(link),
    nexthops: () => socket.nexthops(),
    routes: (filter) => socket.routes(filter),
    rules: () => socket.rules(),
    async change(changes, what) {
      const start = performance.now();
      const results = await socket.change(changes, what);
      kernel += performance.now() - start;
      return results;
    },
  },
  kernelSysctls(socket),
  wireguardPort(null),
);

async function timed(wanted: Netstate): Promise<{ readonly whole: number; readonly exchange: number }> {
  kernel = 0;
  const start = performance.now();
  const { problems } = await reconciler.apply(wanted);
  const whole = performance.now() - start;
  if (problems.length > 0) throw new Error(problems[0]?.message);
  return { whole, exchange: kernel };
}

const first = await timed(netstate(1));
const moved: { readonly whole: number; readonly exchange: number }[] = [];
for (let i = 0; i < moves; i++) moved.push(await timed(netstate(2 + (i % (peers - 1)))));
const start = performance.now();
const { operations } = await reconciler.verify();
if (operations.length > 0) throw new Error(`not as it was applied: ${operations[0]}`);
const verify = performance.now() - start;
await socket.close();
answer({
  first: first.whole,
  firstExchange: first.exchange,
  move: median(moved.map(({ whole }) => whole)),
  moveExchange: median(moved.map(({ exchange }) => exchange)),
  verify,
});
