/**
 * The observer against hand-written tables: every verdict × protocol × family × direction is seen
 * as what it is.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import os from 'node:os';
import { isAtLeast } from '../../lib/process/check-line.ts';
import { type AddressPair, addressPlan, createTopology, type Topology } from '../netns/topology.ts';
import { asObserved, type Flow, type Verdict } from './flow.ts';
import { kernelSuite } from './kernel-suite.ts';
import { observe, observeDetails } from './verdicts.ts';

const FAMILIES = ['v4', 'v6'] as const;
const DIRECTIONS = ['ingress', 'egress'] as const;
const VERDICTS: readonly {
  name: string;
  tcp: string;
  rest: string;
  tcpVerdict: Verdict;
  verdict: Verdict;
}[] = [
  { name: 'accept', tcp: 'accept', rest: 'accept', tcpVerdict: 'Allow', verdict: 'Allow' },
  { name: 'drop', tcp: 'drop', rest: 'drop', tcpVerdict: 'Drop', verdict: 'Drop' },
  {
    name: 'tcp reset, the rest admin-prohibited',
    tcp: 'reject with tcp reset',
    rest: 'reject with icmpx type admin-prohibited',
    tcpVerdict: 'Reject',
    verdict: 'Reject',
  },
  {
    name: 'tcp reset, the rest dropped',
    tcp: 'reject with tcp reset',
    rest: 'drop',
    tcpVerdict: 'Reject',
    verdict: 'Drop',
  },
  {
    name: 'everything admin-prohibited',
    tcp: 'reject with icmpx type admin-prohibited',
    rest: 'reject with icmpx type admin-prohibited',
    tcpVerdict: 'Reject',
    verdict: 'Reject',
  },
];

/** Errors of ICMP that one of these tests is answered with within a second, and more. */
const ICMP_ERRORS = 100_000;
const NO_ICMP_ERRORS =
  `this machine limits ICMP errors: before Linux 6.12, as root, ` +
  `sysctl -w net.ipv4.icmp_msgs_per_sec=${ICMP_ERRORS} net.ipv4.icmp_msgs_burst=${ICMP_ERRORS}`;

/**
 * Before Linux 6.12 the machine has one limit for all its network namespaces and both families
 * (icmp_global_allow in net/ipv4/icmp.c), which a namespace cannot change.
 */
function hasIcmpErrors(): boolean {
  if (isAtLeast(os.release(), 6, 12)) return true;
  return ['icmp_msgs_per_sec', 'icmp_msgs_burst'].every(
    (name) => Number(readFileSync(`/proc/sys/net/ipv4/${name}`, 'utf8')) >= ICMP_ERRORS,
  );
}

kernelSuite('verdict observation', () => {
  let topology: Topology;
  before(async () => {
    topology = await createTopology(addressPlan({ clients: 2, multicastGroups: ['239.1.1.1'] }));
  });
  after(() => topology?.close());

  for (const { name, tcp, rest, tcpVerdict, verdict } of VERDICTS) {
    it(name, async function () {
      if (rest.startsWith('reject') && !hasIcmpErrors()) {
        process.stderr.write(`skipped: ${NO_ICMP_ERRORS}\n`);
        this.skip();
      }
      const flows = everyFlow(topology);
      await loadFirewall(topology, `meta l4proto tcp ${tcp}; ${rest}`);
      const expected = flows.map((flow) => asObserved(flow, flow.protocol === 'tcp' ? tcpVerdict : verdict));
      assertSame(flows, await observe(topology, flows), expected);
    });
  }

  it('the sender sees the reset and the ICMP error', async () => {
    const [client] = topology.plan.clientAddresses;
    const [node] = topology.plan.nodeAddresses;
    assert(client && node);
    await loadFirewall(
      topology,
      'meta l4proto tcp reject with tcp reset; reject with icmpx type admin-prohibited',
    );
    const flows = FAMILIES.flatMap((family): Flow[] => [
      { direction: 'ingress', src: client[family], dst: node[family], protocol: 'tcp', dstPort: 80 },
      { direction: 'ingress', src: client[family], dst: node[family], protocol: 'udp', dstPort: 80 },
    ]);
    const seen = (await observeDetails(topology, flows)).map(({ saw, icmp }) => icmp ?? saw);
    assert.deepEqual(seen, ['reset', '3/13', 'reset', '1/1']);
  });

  it('a closed port that answers is not a reject, and both directions of one connection are told apart', async () => {
    const [client] = topology.plan.clientAddresses;
    const [node] = topology.plan.nodeAddresses;
    assert(client && node);
    await loadFirewall(topology, 'tcp dport 81 drop; accept');
    const flow = (direction: Flow['direction'], srcPort: number, dstPort: number): Flow => {
      const [src, dst] = direction === 'ingress' ? [client.v4, node.v4] : [node.v4, client.v4];
      return { direction, src, dst, protocol: 'tcp', srcPort, dstPort };
    };
    const flows = [
      flow('ingress', 81, 80),
      flow('egress', 80, 81),
      flow('ingress', 5, 81),
      flow('egress', 81, 5),
    ];
    assert.deepEqual(await observe(topology, flows), ['Allow', 'Drop', 'Drop', 'Allow']);
  });

  it('NodePort flows are translated connections to a pod, by the port before NAT; others are ignored', async () => {
    const [node] = topology.plan.nodeAddresses;
    const client = topology.plan.clientAddresses.find((one) => one.client === 1);
    assert(node && client);
    // nft 1.0.6 knows the key's type only beside a protocol.
    const byPort = ['tcp', 'udp', 'sctp'].map(
      (protocol) =>
        `ct status dnat meta l4proto ${protocol} ct original proto-dst vmap { 81 : drop, 82 : jump refuse };`,
    );
    const stdin = `table inet nodewall\ndelete table inet nodewall\ntable inet nodewall {
  chain prerouting { type filter hook prerouting priority -90; ${byPort.join(' ')} }
  chain refuse { meta l4proto tcp reject with tcp reset; reject with icmpx type admin-prohibited; }
}\n`;
    await topology.node.run(['nft', '-f', '-'], { stdin });
    const expected: Verdict[] = [];
    const flows = FAMILIES.flatMap((family) =>
      (['tcp', 'udp', 'sctp'] as const).flatMap((protocol) =>
        [80, 81, 82].flatMap((dstPort) =>
          (['NodePort', 'Host'] as const).map((traffic): Flow => {
            const judged = ({ 81: 'Drop', 82: 'Reject' } as const)[dstPort];
            expected.push(traffic === 'NodePort' && judged ? judged : 'Allow');
            const ends = { src: client[family], dst: node[family] };
            return { direction: 'ingress', ...ends, protocol, dstPort, traffic };
          }),
        ),
      ),
    );
    assertSame(flows, await observe(topology, flows), expected);
  });

  it('distinguishes 1,000 flows in a few seconds', async () => {
    await loadFirewall(
      topology,
      'th dport & 3 == 1 drop; th dport & 3 == 2 reject with icmpx type admin-prohibited; accept',
    );
    const flows = Array.from({ length: 1000 }, (_, i) => manyPorts(topology, i));
    const byPort = ['Allow', 'Drop', 'Reject', 'Allow'] as const;
    const expected = flows.map(({ dstPort = 0 }): Verdict => byPort[dstPort % 4] ?? 'Allow');
    const start = performance.now();
    assertSame(flows, await observe(topology, flows), expected);
    assert(performance.now() - start < 10_000);
  });
});

function everyFlow({ plan }: Topology): Flow[] {
  const [node] = plan.nodeAddresses;
  assert(node);
  const flows = plan.clientAddresses
    .slice(0, 6)
    .flatMap((client, i) =>
      FAMILIES.flatMap((family) =>
        DIRECTIONS.flatMap((direction) => flowsBetween(direction, family, node, client, 2000 + i)),
      ),
    );
  const [client] = plan.clientAddresses;
  assert(client);
  for (const direction of DIRECTIONS) {
    const src = direction === 'ingress' ? client.v4 : node.v4;
    flows.push({ direction, src, dst: '239.1.1.1', protocol: 'igmp', igmpType: 0x16 });
  }
  return flows;
}

function flowsBetween(
  direction: Flow['direction'],
  family: (typeof FAMILIES)[number],
  node: AddressPair,
  client: AddressPair,
  port: number,
): Flow[] {
  const [src, dst] =
    direction === 'ingress' ? [client[family], node[family]] : [node[family], client[family]];
  const ends = { direction, src, dst };
  const icmp =
    family === 'v4' ? ([0, 3, 5, 8, 11, 13, 30] as const) : ([1, 2, 128, 129, 130, 133, 135, 137] as const);
  // 47 GRE, 50 ESP, 89 OSPF, 103 PIM, 112 VRRP: what a node may really see.
  return [
    ...(['tcp', 'udp', 'sctp'] as const).map((protocol) => ({
      ...ends,
      protocol,
      srcPort: port,
      dstPort: 80,
    })),
    ...icmp.map(
      (icmpType) => ({ ...ends, protocol: family === 'v4' ? 'icmp' : 'icmpv6', icmpType }) as const,
    ),
    ...[2, 4, 47, 50, 89, 103, 112].map((protocol) => ({ ...ends, protocol })),
  ];
}

function manyPorts({ plan }: Topology, i: number): Flow {
  const family = i % 2 ? 'v4' : 'v6';
  const client = plan.clientAddresses[i % plan.clientAddresses.length];
  const [node] = plan.nodeAddresses;
  assert(client && node);
  const direction = i % 3 ? 'ingress' : 'egress';
  const [src, dst] =
    direction === 'ingress' ? [client[family], node[family]] : [node[family], client[family]];
  return {
    direction,
    src,
    dst,
    protocol: i % 5 ? 'tcp' : 'udp',
    srcPort: 10_000 + i,
    dstPort: 1 + ((i * 7) % 5000),
  };
}

/** Rules in both directions behind what docs/semantics.md exempts. */
async function loadFirewall({ node }: Topology, rules: string): Promise<void> {
  const chain = (hook: string, lo: string) => `chain ${hook} {
    type filter hook ${hook} priority filter;
    ct state established,related accept; ${lo} lo accept; ${rules}
  }`;
  const stdin = `table inet nodewall\ndelete table inet nodewall\ntable inet nodewall {
  ${chain('input', 'iif')}
  ${chain('output', 'oif')}
}\n`;
  await node.run(['nft', '-f', '-'], { stdin });
}

function assertSame(
  flows: readonly Flow[],
  observed: readonly Verdict[],
  expected: readonly Verdict[],
): void {
  const differences = flows.flatMap((flow, i) =>
    observed[i] === expected[i] ? [] : [{ ...flow, observed: observed[i], expected: expected[i] }],
  );
  assert.deepEqual(differences.slice(0, 10), []);
}
