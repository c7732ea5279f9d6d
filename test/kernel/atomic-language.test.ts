/**
 * While rules of every form of the language follow each other under load, for the Node and for
 * NodePorts at once, what is closed is never open and what is open is never closed; also where the
 * agent is killed and started again in between.
 */

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Dataplane, EITHER_IPTABLES, forEachDataplane, itForAny, NFTABLES } from './dataplane.ts';
import type { RunningAgent } from './enforced-node.ts';
import { type FloodTarget, floodTime, passedDuring } from './flood-tool.ts';
import { cidr, type PolicyOptions, policy, type Rule, tcp, udp } from './manifests.ts';
import type { Shape } from './passed-by.ts';
import { type Cluster, createCluster } from './passed-by-cluster.ts';
import { kubeProxyIptables } from './passed-by-iptables.ts';
import { kubeProxyNftables } from './passed-by-nftables.ts';
import { withVariations } from './variations.ts';

const TIME = floodTime(2_000);
const LEAST_RESTARTS = 4;
/** Above this, a port number in the rules' text says which generation of the files is in force. */
const MARKER = 20_000;
const CLOSED = 9;
const OPEN = 10;
/** What a node with the dataplane is likely to have beside it. */
const SHAPES: Readonly<Record<Dataplane['name'], Shape>> = {
  nftables: kubeProxyNftables,
  'iptables-nft': kubeProxyIptables('nft'),
  'iptables-legacy': kubeProxyIptables('legacy'),
};
/** The link group that the agent puts the client's interface into. */
const OUTSIDE = 20;

forEachDataplane(
  'the whole language under a flood',
  (dataplane) => {
    const itOnce = itForAny(dataplane);
    let cluster: Cluster;
    let agent: RunningAgent;
    /** Of the next test's first files: no marker comes twice. */
    let generation = 0;
    before(async () => {
      cluster = await createCluster(SHAPES[dataplane.name], dataplane, { isSilent: true });
    });
    afterEach(() => agent?.end('SIGKILL'));
    after(() => cluster?.close());

    for (const { family, dispatch } of casesOf(dataplane)) {
      it(`leaks nothing when every form of rule replaces every other (IPv${family}, ${dispatch})`, async () => {
        const { start, write, isInForce, flood } = await setUp(family, dispatch);
        agent = await start();
        await flood(KINDS.length, async (n) => {
          await write(n);
          await isInForce(n, agent);
        });
      });
    }

    // With iptables: restart.test.ts.
    itOnce(
      'leaks nothing when the agent is killed at any moment, and masquerading is turned on and off',
      async () => {
        const { start, write, isInForce, flood } = await setUp(4, 'indexed');
        agent = await start();
        await flood(LEAST_RESTARTS, async (n) => {
          await write(n);
          if (n % 2 === 0) await isInForce(n, agent);
          else await sleep((n * 7) % 60);
          await agent.end('SIGKILL');
          agent = await start({ masquerade: { enabled: n % 3 === 0 } });
          await isInForce(n, agent);
        });
      },
    );

    async function setUp(family: 4 | 6, dispatch: 'indexed' | 'linear') {
      const { node } = cluster;
      const first = generation;
      const markerOf = (n: number): number => {
        generation = Math.max(generation, first + n + 1);
        return MARKER + first + n;
      };
      const nodePort = (target: 'local' | 'masqueraded'): number => {
        const way = cluster.ways.find(
          (one) =>
            `${one.kind} ${one.target} ${one.protocol} ${one.family}` === `nodePort ${target} udp ${family}`,
        );
        assert(way);
        return way.port;
      };
      const ports = {
        Host: { closed: CLOSED, open: OPEN },
        NodePort: { closed: nodePort('local'), open: nodePort('masqueraded') },
      };
      const targets: FloodTarget[] = [
        { protocol: 'udp', port: ports.Host.closed, family },
        { protocol: 'udp', port: ports.NodePort.closed, family, forwarded: true },
        { protocol: 'udp', port: ports.Host.open, family, rate: 500 },
        { protocol: 'udp', port: ports.NodePort.open, family, forwarded: true, rate: 500 },
      ];
      const write = (n: number): Promise<void> =>
        node.write('policies.json', [
          ...GROUPS,
          policy('marker', {
            priority: 9000,
            ingress: [{ name: 'marker', action: 'Drop', ports: [tcp(markerOf(n))] }],
          }),
          ...kindOf(n).objects(n, 'Host', ports.Host),
          ...kindOf(n + 1).objects(n, 'NodePort', ports.NodePort),
        ]);
      const isInForce = (n: number, agent: RunningAgent): Promise<void> =>
        node.untilEnforced(String(markerOf(n)), agent);
      await write(0);
      return {
        write,
        isInForce,
        async start(more: object = {}): Promise<RunningAgent> {
          const outside = { group: OUTSIDE, match: [node.topology.nodeInterface(0)] };
          // Nobody answers there: names stay without an address.
          const names = { servers: ['127.0.0.1'] };
          const agent = node.start(
            ...(await node.configure({ dispatch, interfaceGroups: { outside }, names, ...more })),
          );
          if (Object.keys(more).length === 0) await isInForce(0, agent);
          return agent;
        },
        async flood(least: number, swap: (n: number) => Promise<void>): Promise<void> {
          let swaps = 0;
          const leaks: string[] = [];
          const counts = await passedDuring(node.topology, targets, async (passed) => {
            const end = performance.now() + TIME * dataplane.share;
            let before = 0;
            while (performance.now() < end || swaps < least) {
              swaps++;
              await swap(swaps);
              const [host = 0, forwarded = 0] = await passed();
              if (host + forwarded > before) {
                leaks.push(
                  `${host} and ${forwarded} at ${swaps}: ${nameOf(swaps - 1)}, ${nameOf(swaps)}, ${nameOf(swaps + 1)}`,
                );
              }
              before = host + forwarded;
            }
          });
          const [toHost, toNodePort, openHost, openNodePort] = counts;
          assert(toHost && toNodePort && openHost && openNodePort);
          assert(toHost.arrived > 1_000 && toNodePort.arrived > 1_000, JSON.stringify(counts));
          assert(openHost.arrived > 400 && openNodePort.arrived > 400, JSON.stringify(counts));
          assert.deepEqual(
            [toHost.passed, toNodePort.passed],
            [0, 0],
            `leaked in ${swaps} swaps: ${leaks.join('; ')}`,
          );
          const lost = [openHost, openNodePort].map(({ arrived, passed }) => Math.max(0, arrived - passed));
          assert.deepEqual(lost, [0, 0], `lost in ${swaps} swaps`);
        },
      };
    }
  },
  EITHER_IPTABLES,
);

interface Case {
  readonly family: 4 | 6;
  readonly dispatch: 'indexed' | 'linear';
}

function casesOf(dataplane: Dataplane): readonly Case[] {
  const v4: Case = { family: 4, dispatch: 'indexed' };
  const v6: Case = { family: 6, dispatch: 'indexed' };
  const linear: Case = { family: 6, dispatch: 'linear' };
  return dataplane === NFTABLES ? withVariations([v4, linear], [v6]) : withVariations([v6], [v4, linear]);
}

interface Ports {
  readonly closed: number;
  readonly open: number;
}

interface Kind {
  readonly name: string;
  /** Policies that close one port and open the other. */
  objects(n: number, traffic: 'Host' | 'NodePort', ports: Ports): readonly object[];
}

/** Goes through the kinds by steps of one, two, … so that each follows each. */
function kindOf(n: number): Kind {
  const step = 1 + (Math.floor(n / KINDS.length) % (KINDS.length - 1));
  const kind = KINDS[(n * step) % KINDS.length];
  assert(kind);
  return kind;
}

const nameOf = (n: number): string => kindOf(n).name;

const CLIENTS = [cidr('198.18.0.0/15'), cidr('2001:db8:18::/48')];
const strangers = (n: number) => [
  ...Array.from({ length: 10 }, (_, i) => cidr(`198.51.${(n + i) % 250}.${i}/32`)),
  ...Array.from({ length: 10 }, (_, i) => cidr(`100.${(n + i) % 250}.0.0/${17 + (i % 8)}`)),
];
const GROUPS = [
  { name: 'clients', spec: { ipBlocks: CLIENTS.map((peer) => (peer as { ipBlock: object }).ipBlock) } },
  { name: 'all', spec: { childGroups: ['clients'] } },
].map(({ name, spec }) => ({
  apiVersion: 'nodewall.io/v1alpha1',
  kind: 'ClusterGroup',
  metadata: { name },
  spec,
}));

/** Of a name of its own for each traffic. */
function rules(
  traffic: 'Host' | 'NodePort',
  name: string,
  ingress: readonly Rule[],
  more: PolicyOptions = {},
): object {
  return policy(`${name}-${traffic.toLowerCase()}`, { traffic, ingress, ...more });
}

const KINDS: readonly Kind[] = [
  {
    name: 'plain',
    objects: (_, traffic, { closed, open }) => [
      rules(traffic, 'plain', [
        { name: 'close', action: 'Drop', ports: [udp(closed)] },
        { name: 'open', action: 'Allow', ports: [udp(open)] },
      ]),
    ],
  },
  {
    name: 'passed to the baseline',
    objects: (n, traffic, { closed, open }) => [
      rules(traffic, 'main', [
        {
          name: 'pass',
          action: 'Pass',
          from: [...CLIENTS, ...strangers(n)],
          ports: [udp(closed), udp(open)],
        },
      ]),
      rules(
        traffic,
        'base',
        [
          { name: 'open', action: 'Allow', ports: [udp(open, open)] },
          { name: 'close', action: 'Drop', ports: [udp(closed)] },
        ],
        { tier: 'baseline' },
      ),
    ],
  },
  {
    name: 'passed and recorded, then denied by the baseline',
    objects: (_, traffic, { closed, open }) => [
      rules(traffic, 'main', [
        { name: 'open', action: 'Allow', ports: [udp(open)], enableLogging: true },
        { name: 'pass', action: 'Pass', ports: [udp(closed, closed)], enableLogging: true },
      ]),
      rules(traffic, 'base', [{ name: 'deny', action: 'Drop', enableLogging: true }], { tier: 'baseline' }),
    ],
  },
  {
    name: 'audited, then recorded',
    objects: (_, traffic, { closed, open }) => [
      rules(
        traffic,
        'audit',
        [
          { name: 'open-all', action: 'Allow', ports: [udp(closed)] },
          { name: 'close-all', action: 'Drop' },
        ],
        { mode: 'Audit', priority: 1 },
      ),
      rules(traffic, 'main', [
        { name: 'open', action: 'Allow', from: CLIENTS, ports: [udp(open)], enableLogging: true },
        { name: 'close', action: 'Drop', from: CLIENTS, ports: [udp(closed)], enableLogging: true },
      ]),
    ],
  },
  {
    name: 'by interface',
    objects: (n, traffic, { closed, open }) => [
      rules(traffic, 'main', [
        {
          name: 'open',
          action: 'Allow',
          from: [{ interfaceGroup: 'outside' }, ...strangers(n)],
          ports: [udp(open)],
        },
        { name: 'close', action: 'Drop', from: [{ interfaceGroup: OUTSIDE }], ports: [udp(closed)] },
      ]),
    ],
  },
  {
    name: 'by group, rejected, recorded',
    objects: (n, traffic, { closed, open }) => [
      rules(traffic, 'main', [
        { name: 'strangers', action: 'Drop', from: strangers(n) },
        { name: 'open', action: 'Allow', from: [{ group: 'all' }], ports: [udp(open)] },
        {
          name: 'close',
          action: 'Reject',
          from: [{ group: 'all' }],
          ports: [udp(closed - (n % 5), closed)],
          enableLogging: true,
        },
      ]),
    ],
  },
  {
    name: 'beside names and services',
    objects: (n, traffic, { closed, open }) => [
      rules(traffic, 'main', [
        { name: 'open', action: 'Allow', ports: [udp(open)] },
        { name: 'close', action: 'Drop', ports: [udp(closed), udp(200 + n)] },
      ]),
      policy('egress', {
        egress: [
          { name: 'name', action: 'Allow', to: [{ fqdn: `a${n}.example.com` }, { fqdn: '*.example.org' }] },
          { name: 'service', action: 'Drop', toServices: [{ name: `s${n}`, namespace: 'default' }] },
        ],
      }),
    ],
  },
];
