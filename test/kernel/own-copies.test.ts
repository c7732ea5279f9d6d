/**
 * The machine's own copies of its multicasts and broadcasts, under a deny of all ingress; and the
 * same packets, with the same sources, from others on the link.
 */

import assert from 'node:assert/strict';
import { addressPlan, CLIENT_INTERFACE } from '../netns/topology.ts';
import { probeProgram } from '../probe/probe.ts';
import { forEachDataplane, itForAny } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent } from './enforced-node.ts';
import { policy, tcp } from './manifests.ts';
import { until } from './until.ts';

const GROUP = '239.1.2.3';
const PLAN = addressPlan({
  nodeAddresses: 1,
  addressesPerClient: 1,
  groups: [0, 8],
  multicastGroups: [GROUP],
});
const OWN = PLAN.nodeAddresses[0] ?? assert.fail();
/** On c0 and, as a bridge of pods has one, on c1. */
const SUBNET = { address: '10.91.0.1', broadcast: '10.91.0.255' };
const BY_PODS = '10.92.0.1';
/** Of the node, on each link. */
const LINK_LOCAL = 'fe80::ff:fe00:100';

interface Own {
  readonly title: string;
  /** Where the socket is bound. */
  readonly from: string;
  readonly to: string;
}

const COPIES: readonly Own[] = [
  { title: 'multicast (v4)', from: OWN.v4, to: GROUP },
  { title: 'multicast to pods (v4)', from: BY_PODS, to: GROUP },
  { title: 'broadcast (v4)', from: SUBNET.address, to: SUBNET.broadcast },
  { title: 'multicast (v6)', from: OWN.v6, to: 'ff02::1%c0' },
  { title: 'multicast by link-local (v6)', from: '::', to: 'ff02::1%c0' },
  { title: 'multicast to pods (v6)', from: '::', to: 'ff02::1%c1' },
];

interface Other {
  readonly title: string;
  readonly client: 0 | 1;
  readonly src: string;
  readonly dst: string;
}

const OTHERS: readonly Other[] = ([0, 1] as const).flatMap((client) => [
  { title: `multicast from ${client} (v4)`, client, src: OWN.v4, dst: GROUP },
  { title: `broadcast from ${client} (v4)`, client, src: SUBNET.address, dst: '255.255.255.255' },
  { title: `multicast from ${client} (v6)`, client, src: OWN.v6, dst: 'ff02::1' },
  { title: `multicast by link-local from ${client} (v6)`, client, src: LINK_LOCAL, dst: 'ff02::1' },
]);

const COPY_PORT = 30_000;
const OTHER_PORT = 31_000;

/** Sees the packets that are behind all rules. */
const OBSERVER = `table inet seen {
  set ports { type inet_service; }
  chain input { type filter hook input priority 200; udp dport 30000-31999 add @ports { udp dport }; }
}
`;

/** Sends each packet by a socket of its own, which hears its own multicasts. */
const SEND = `
const { createSocket } = require('node:dgram');
for (const [i, { from, to }] of ${JSON.stringify(COPIES)}.entries()) {
  const socket = createSocket(from.includes(':') ? 'udp6' : 'udp4');
  socket.bind(0, from, () => {
    socket.setBroadcast(true);
    if (to === '${GROUP}') socket.setMulticastInterface(from);
    socket.send('x', ${COPY_PORT} + i, to, (error) => { if (error) throw error; socket.close(); });
  });
}`;

forEachDataplane("the machine's own copies of multicasts", (dataplane) => {
  const itOnce = itForAny(dataplane);
  let it_: EnforcedNode;
  let agent: RunningAgent | undefined;

  before(async () => {
    it_ = await createEnforcedNode(PLAN, dataplane);
    const { node } = it_.topology;
    // Without rules, packets of others with the node's addresses arrive.
    await node.run(['sysctl', '-q', '-w', 'net.ipv4.conf.all.accept_local=1']);
    await node.run(['ip', 'addr', 'add', `${SUBNET.address}/24`, 'broadcast', SUBNET.broadcast, 'dev', 'c0']);
    await node.run(['ip', 'addr', 'add', `${BY_PODS}/32`, 'dev', 'c1']);
    await it_.nft(OBSERVER);
    assert.deepEqual(await arrived(), [...COPIES, ...OTHERS].map(({ title }) => title).sort());
  });
  after(() => it_?.close());

  async function arrived(): Promise<string[]> {
    const { node, clients } = it_.topology;
    await it_.nft('flush set inet seen ports\n');
    await node.run([process.execPath, '-e', SEND]);
    const probe = await probeProgram();
    for (const [client, namespace] of clients.entries()) {
      const lines = OTHERS.flatMap((one, i) =>
        one.client === client
          ? JSON.stringify({
              id: i,
              src: one.src,
              dst: one.dst,
              protocol: 17,
              srcPort: 40_000,
              dstPort: OTHER_PORT + i,
            })
          : [],
      );
      const argv = [probe, 'send', '--wait', '50', '--interface', CLIENT_INTERFACE];
      const { stdout } = await namespace.run(argv, { stdin: `${lines.join('\n')}\n` });
      assert.doesNotMatch(stdout, /"errno"/);
    }
    const { stdout } = await node.run(['nft', '-j', 'list', 'set', 'inet', 'seen', 'ports']);
    const { nftables } = JSON.parse(stdout) as { nftables: { set?: { elem?: number[] } }[] };
    const seen = nftables.flatMap(({ set }) => set?.elem ?? []);
    const titles = seen.map((port) => (COPIES[port - COPY_PORT] ?? OTHERS[port - OTHER_PORT])?.title);
    return titles.map((title) => title ?? assert.fail()).sort();
  }

  async function enforce(marker: number, config: object): Promise<void> {
    const ingress = [
      { name: 'marker', action: 'Allow', ports: [tcp(marker)] },
      { name: 'rest', action: 'Drop' },
    ] as const;
    await agent?.end('SIGTERM');
    await it_.write('policy.json', [policy('deny', { ingress })]);
    agent = it_.start(...(await it_.configure({ ...config })));
    await it_.untilEnforced(String(marker), agent);
  }

  const copies = COPIES.map(({ title }) => title).sort();

  it('come, and nobody else can send them', async () => {
    await enforce(22_001, {});
    assert.deepEqual(await arrived(), copies);
    const { spoofed } = JSON.parse((await it_.ask('rules', '-o', 'json')).stdout);
    const { packets } = spoofed ?? {};
    assert.equal(packets, OTHERS.filter(({ client, src }) => client === 1 && src !== LINK_LOCAL).length);
  });

  it('come without anti-spoofing, too', async () => {
    await enforce(22_002, { antiSpoofing: false });
    assert.deepEqual(await arrived(), copies);
  });

  itOnce('are judged where the exemption loopback is off', async () => {
    await enforce(22_003, { exemptions: { loopback: false } });
    assert.deepEqual(await arrived(), []);
  });

  itOnce('are back when the rules are gone', async () => {
    await it_.remove('policy.json');
    const all = [...COPIES, ...OTHERS].map(({ title }) => title).sort();
    await until('all arrive', async () => (await arrived()).join() === all.join());
  });
});
