/**
 * While NodePort policies change under load, a closed NodePort is never open and an open one never
 * closed.
 */

import assert from 'node:assert/strict';
import {
  type Dataplane,
  EITHER_IPTABLES,
  forEachDataplane,
  IPTABLES_LEGACY,
  IPTABLES_NFT,
  NFTABLES,
} from './dataplane.ts';
import { floodTime, passedDuring } from './flood-tool.ts';
import { cidr, policy, type Rule, tcp, udp } from './manifests.ts';
import type { Shape } from './passed-by.ts';
import { type Cluster, createCluster } from './passed-by-cluster.ts';
import { kubeProxyIptables } from './passed-by-iptables.ts';
import { kubeProxyNftables } from './passed-by-nftables.ts';
import { withVariations } from './variations.ts';

/** Above this, a port number in the rules' text says which generation of the files is in force. */
const MARKER = 20_000;
const TIME = floodTime(2_000);
const LEAST_SWAPS = 5;

interface Case {
  readonly by: Dataplane;
  readonly shape: Shape;
  readonly family: 4 | 6;
  readonly dispatch: 'indexed' | 'linear';
}

const CASES = withVariations<Case>(
  [
    { by: NFTABLES, shape: kubeProxyNftables, family: 6, dispatch: 'linear' },
    { by: NFTABLES, shape: kubeProxyIptables('nft'), family: 6, dispatch: 'indexed' },
    { by: IPTABLES_NFT, shape: kubeProxyIptables('nft'), family: 4, dispatch: 'indexed' },
  ],
  [
    { by: NFTABLES, shape: kubeProxyNftables, family: 4, dispatch: 'indexed' },
    { by: IPTABLES_NFT, shape: kubeProxyNftables, family: 6, dispatch: 'linear' },
    { by: IPTABLES_LEGACY, shape: kubeProxyIptables('legacy'), family: 4, dispatch: 'indexed' },
  ],
);

forEachDataplane(
  'NodePort policies change under a flood',
  (dataplane) => {
    let cluster: Cluster;
    afterEach(() => cluster?.close());

    for (const { by, shape, family, dispatch } of CASES) {
      if (by !== dataplane) continue;
      it(`a closed NodePort never leaks, an open one is never interrupted (${shape.name}, IPv${family}, ${dispatch})`, async () => {
        cluster = await createCluster(shape, dataplane, { isSilent: true });
        const { node } = cluster;
        const closed = portOf(cluster, 'local', family);
        const open = portOf(cluster, 'remote', family);
        await node.write('policy.json', generation(0, { closed, open }));
        const agent = node.start(...(await node.configure({ dispatch })));
        await node.untilEnforced(String(MARKER), agent);
        const targets = [
          { protocol: 'udp', port: closed, family, forwarded: true },
          { protocol: 'udp', port: open, family, forwarded: true, rate: 500 },
        ] as const;
        const swaps = { count: 0 };
        const counts = await passedDuring(node.topology, targets, () =>
          swapFor(TIME * dataplane.share, async (n) => {
            swaps.count = n;
            await node.write('policy.json', generation(n, { closed, open }));
            await node.untilEnforced(String(MARKER + n), agent);
          }),
        );
        await agent.end('SIGTERM');
        const [toClosed, toOpen] = counts;
        assert(toClosed && toOpen);
        assert(toClosed.arrived > 2_000 * dataplane.share, `only ${toClosed.arrived} packets`);
        assert(toOpen.arrived > 400, `only ${toOpen.arrived} packets`);
        assert.equal(toClosed.passed, 0, `leaked of ${toClosed.arrived} in ${swaps.count} swaps`);
        assert.equal(toOpen.arrived - toOpen.passed, 0, `lost of ${toOpen.arrived} in ${swaps.count} swaps`);
      });
    }
  },
  EITHER_IPTABLES,
);

async function swapFor(time: number, swap: (n: number) => Promise<void>): Promise<void> {
  const end = performance.now() + time;
  for (let n = 1; performance.now() < end || n <= LEAST_SWAPS; n++) await swap(n);
}

function portOf({ ways }: Cluster, target: 'local' | 'remote', family: 4 | 6): number {
  const way = ways.find(
    (one) =>
      one.kind === 'nodePort' && one.target === target && one.protocol === 'udp' && one.family === family,
  );
  assert(way);
  return way.port;
}

interface Ports {
  readonly closed: number;
  readonly open: number;
}

/** Every generation closes one port and opens the other, each by another kind of rule. */
function generation(n: number, ports: Ports): object[] {
  const marker: Rule = { name: 'marker', action: 'Drop', ports: [tcp(MARKER + n)] };
  const rules = KINDS[n % KINDS.length]?.(n, ports) ?? [];
  return [policy('swapped', { traffic: 'NodePort', ingress: [marker, ...rules] })];
}

const CLIENTS = [cidr('198.18.0.0/15'), cidr('2001:db8:18::/48')];
const strangers = (n: number) =>
  Array.from({ length: 20 }, (_, i) => cidr(`10.${(n + i) % 250}.0.0/${17 + (i % 8)}`));

const KINDS: readonly ((n: number, ports: Ports) => readonly Rule[])[] = [
  (_, { closed, open }) => [
    { name: 'close', action: 'Drop', ports: [udp(closed)] },
    { name: 'open', action: 'Allow', ports: [udp(open)] },
  ],
  (n, { closed, open }) => [
    { name: 'open', action: 'Allow', ports: [udp(open)] },
    { name: 'close', action: 'Drop', ports: [udp(closed - 40 - (n % 7), closed), udp(closed + 9)] },
  ],
  (n, { closed, open }) => [
    { name: 'strangers', action: 'Drop', from: strangers(n) },
    { name: 'open', action: 'Allow', from: CLIENTS, ports: [udp(open)] },
    { name: 'close', action: 'Reject', from: CLIENTS, ports: [udp(closed)] },
  ],
  (n, { open }) => [
    { name: 'open', action: 'Allow', from: [...CLIENTS, ...strangers(n)], ports: [udp(open)] },
    { name: 'deny', action: 'Drop' },
  ],
  (n, { closed, open }) => [
    { name: 'many', action: 'Drop', ports: [udp(closed), ...[1, 2, 3].map((i) => udp(200 + n * i))] },
    { name: 'open', action: 'Allow', ports: [udp(open)] },
  ],
];
