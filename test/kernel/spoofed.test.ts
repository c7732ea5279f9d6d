/**
 * Packets with the address of a Node that come from a pod, and packets with an address of the node
 * itself that come from anywhere: raw packets, while the sysctls that would drop them are off.
 */

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Namespace } from '../netns/namespace.ts';
import { addressPlan, CLIENT_INTERFACE } from '../netns/topology.ts';
import { probeProgram } from '../probe/probe.ts';
import { EITHER_IPTABLES, forEachDataplane, itForAny } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent } from './enforced-node.ts';
import { cidr, policy, tcp } from './manifests.ts';
import { until } from './until.ts';

const NETWORK = 0;
const POD = 1;
const CLUSTERNET = 2;
const PLAN = addressPlan({ clients: 3, nodeAddresses: 1, addressesPerClient: 1, groups: [0, 8, 9] });
const [OWN = { v4: '', v6: '' }] = PLAN.nodeAddresses;
const [NEIGHBOUR, HONEST = OWN] = PLAN.clientAddresses;
const OTHER_NODE = { v4: '10.200.0.1', v6: 'fd90:200::1' };
/** Destination NAT hands these ports to the client on the network. */
const NODE_PORTS = 38_000;

interface Case {
  readonly what: string;
  readonly from: number;
  readonly src: { readonly v4?: string; readonly v6?: string };
  /** Where the packet goes: to the node, by it to another host, or by it and NAT. */
  readonly to?: 'node' | 'host' | 'nat';
  readonly isSpoofed: boolean;
}

const LOOPBACK = { v4: '127.0.0.1' };
const CASES: readonly Case[] = [
  { what: 'a pod as itself', from: POD, src: HONEST, isSpoofed: false },
  { what: 'a pod as another Node', from: POD, src: OTHER_NODE, isSpoofed: true },
  { what: 'a pod as this Node', from: POD, src: OWN, isSpoofed: true },
  { what: 'a pod as loopback', from: POD, src: LOOPBACK, isSpoofed: true },
  { what: 'a pod by its link-local address', from: POD, src: { v6: 'fe80::77' }, isSpoofed: false },
  // That of the node on this link: another machine has it on another link.
  { what: 'a link-local address', from: NETWORK, src: { v6: 'fe80::ff:fe00:100' }, isSpoofed: false },
  { what: 'another Node, from the network', from: NETWORK, src: OTHER_NODE, isSpoofed: false },
  { what: 'another Node, by a tunnel', from: CLUSTERNET, src: OTHER_NODE, isSpoofed: false },
  { what: 'the network as this Node', from: NETWORK, src: OWN, isSpoofed: true },
  { what: 'a tunnel as this Node', from: CLUSTERNET, src: OWN, isSpoofed: true },
  { what: 'the network as loopback', from: NETWORK, src: LOOPBACK, isSpoofed: true },
  { what: 'a pod as itself, to a host', from: POD, src: HONEST, to: 'host', isSpoofed: false },
  { what: 'a pod as another Node, to a host', from: POD, src: OTHER_NODE, to: 'host', isSpoofed: true },
  { what: 'a pod as this Node, to a host', from: POD, src: OWN, to: 'host', isSpoofed: true },
  { what: 'a Node by a tunnel to a host', from: CLUSTERNET, src: OTHER_NODE, to: 'host', isSpoofed: false },
  { what: 'a pod as itself, to a NodePort', from: POD, src: HONEST, to: 'nat', isSpoofed: false },
  { what: 'a pod as another Node, to a NodePort', from: POD, src: OTHER_NODE, to: 'nat', isSpoofed: true },
];

interface Packet extends Case {
  readonly family: 'v4' | 'v6';
  /** Tells the packets apart. */
  readonly port: number;
}

const PACKETS: readonly Packet[] = CASES.flatMap((one, i) =>
  (['v4', 'v6'] as const)
    .filter((family) => one.src[family] !== undefined)
    .map((family) => ({
      ...one,
      family,
      port: (one.to === 'nat' ? NODE_PORTS : 30_000) + 2 * i + (family === 'v4' ? 0 : 1),
    })),
);

/** Sees the packets that are behind all rules. */
const OBSERVER = `table inet seen {
  set ports { type inet_service; }
  chain input { type filter hook input priority 200; udp dport 30000-39999 add @ports { udp dport }; }
  chain forward { type filter hook forward priority 200; udp dport 30000-39999 add @ports { udp dport }; }
  chain prerouting { type nat hook prerouting priority dstnat;
    udp dport ${NODE_PORTS}-38999 dnat ip to ${NEIGHBOUR?.v4}
    udp dport ${NODE_PORTS}-38999 dnat ip6 to ${NEIGHBOUR?.v6}
  }
}
`;

/** Prints what it hears of its own multicast. */
const MULTICAST = `
const socket = require('node:dgram').createSocket({ type: 'udp4', reuseAddr: true });
socket.on('message', (text) => { console.log(String(text)); process.exit(0); });
socket.bind(31999, () => {
  socket.addMembership('239.1.2.3', '${OWN.v4}');
  socket.setMulticastInterface('${OWN.v4}');
  socket.send('heard', 31999, '239.1.2.3');
});
setTimeout(() => process.exit(0), 3000);`;

/** Nobody listens, but the answer comes. */
const CONNECT = `
const socket = require('node:net').connect({ host: process.argv[1], port: 9 });
socket.on('error', ({ code }) => console.log(code)).setTimeout(3000, () => process.exit(1));`;

forEachDataplane(
  'spoofed packets',
  (dataplane) => {
    const itOnce = itForAny(dataplane);
    let it_: EnforcedNode;
    let agent: RunningAgent;

    before(async () => {
      it_ = await createEnforcedNode(PLAN, dataplane);
      const { node } = it_.topology;
      // Without rules, each of the packets arrives.
      const open = ['accept_local=1', 'route_localnet=1'].map((key) => `net.ipv4.conf.all.${key}`);
      await node.run(['sysctl', '-q', '-w', ...open]);
      await it_.nft(OBSERVER);
      // A kubelet that claims the pod's address for its Node does not cut the pod off.
      await it_.write('other-node.json', [
        nodeObject('node-1', OTHER_NODE),
        nodeObject('claims', HONEST),
        podObject('honest', HONEST),
      ]);
      assert.deepEqual(await arrived(), PACKETS.map(title).sort());
    });
    after(() => it_?.close());

    /** Nodes and some others may send, nobody else. */
    async function enforce(marker: number, config: { readonly antiSpoofing?: boolean }): Promise<void> {
      const from = [
        { nodeSelector: {} },
        ...[HONEST.v4, HONEST.v6].map(host),
        cidr('127.0.0.0/8'),
        cidr('fe80::/10'),
      ];
      const ingress = [
        { name: 'marker', action: 'Allow', ports: [tcp(marker)] },
        { name: 'allowed', action: 'Allow', from },
        { name: 'rest', action: 'Drop', enableLogging: true },
      ] as const;
      // The one with the other configuration must not be the one that enforces them.
      await agent?.end('SIGTERM');
      await it_.write('policy.json', [policy('nodes', { ingress })]);
      agent = it_.start(...(await it_.configure(config)), '--metrics-listen', '127.0.0.1:9413');
      await it_.untilEnforced(String(marker), agent);
    }

    async function send(client: number, packets: readonly Packet[]): Promise<void> {
      const namespace = it_.topology.clients[client] ?? assert.fail();
      const lines = packets.map(({ src, family, port, to }, id) => {
        const dst = to === 'host' ? NEIGHBOUR?.[family] : OWN[family];
        return JSON.stringify({ id, src: src[family], dst, protocol: 17, srcPort: 40_000, dstPort: port });
      });
      const argv = [await probeProgram(), 'send', '--wait', '50', '--interface', CLIENT_INTERFACE];
      const { stdout } = await namespace.run(argv, { stdin: `${lines.join('\n')}\n` });
      assert.doesNotMatch(stdout, /"errno"/);
    }

    /** Sends all packets; the titles of those that get to their end, sorted. */
    async function arrived(): Promise<string[]> {
      const { node } = it_.topology;
      await node.run(['conntrack', '-F']);
      await it_.nft('flush set inet seen ports\n');
      for (const client of [NETWORK, POD, CLUSTERNET]) {
        await send(
          client,
          PACKETS.filter(({ from }) => from === client),
        );
      }
      const ports = await seenPorts(node);
      return PACKETS.filter(({ port }) => ports.has(port))
        .map(title)
        .sort();
    }

    const records = () => {
      const path = join(it_.stateDir, 'records.jsonl');
      const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter(Boolean) : [];
      return lines.map((line): Record<string, unknown> => JSON.parse(line));
    };

    it('are dropped, counted and recorded, whatever the policies allow; others are not', async () => {
      await enforce(21_001, {});
      const spoofed = PACKETS.filter(({ isSpoofed }) => isSpoofed);
      const honest = PACKETS.filter(({ isSpoofed }) => !isSpoofed);
      assert.deepEqual(await arrived(), honest.map(title).sort());
      await until('all are recorded', async () => records().length >= spoofed.length, { detail: agent.log });
      const found = records().map(({ reason, verdict, dstPort, originalDstPort }) => [
        ...[reason, verdict],
        originalDstPort ?? dstPort,
      ]);
      assert.deepEqual(found.sort(), spoofed.map(({ port }) => ['spoofed', 'Drop', port]).sort());
      assert.equal(await counted(), spoofed.length);
      await until('the metric counts them', async () => (await metric()) === spoofed.length);
    });

    it('are dropped also in a connection between Nodes that is established', async () => {
      const { node } = it_.topology;
      const before = await counted();
      await node.run(['conntrack', '-F']);
      await it_.nft('flush set inet seen ports\n');
      const packets = PACKETS.filter(({ src, to }) => src === OTHER_NODE && to !== 'nat');
      for (const { family, port, to } of packets) {
        const dst = (to === 'host' ? NEIGHBOUR : OWN)?.[family] ?? '';
        const ends = ['-s', OTHER_NODE[family], '-d', dst, '-p', 'udp', '--sport', '40000'];
        const rest = ['--dport', `${port}`, '-t', '600', '-u', 'SEEN_REPLY,ASSURED'];
        await node.run(['conntrack', '-I', ...ends, ...rest]);
      }
      for (const client of [NETWORK, POD, CLUSTERNET]) {
        await send(
          client,
          packets.filter(({ from }) => from === client),
        );
      }
      const ports = await seenPorts(node);
      const seen = packets.filter(({ port }) => ports.has(port)).map(title);
      const honest = packets.filter(({ isSpoofed }) => !isSpoofed);
      assert.deepEqual(seen.sort(), honest.map(title).sort());
      assert.equal(await counted(), before + packets.length - honest.length);
    });

    itOnce('does not drop what the node sends to itself, by lo or by multicast', async () => {
      const { node } = it_.topology;
      const spoofed = await counted();
      assert.equal((await node.run([process.execPath, '-e', MULTICAST])).stdout, 'heard\n');
      for (const address of [OWN.v4, OWN.v6]) {
        assert.equal((await node.run([process.execPath, '-e', CONNECT, address])).stdout, 'ECONNREFUSED\n');
      }
      assert.equal(await counted(), spoofed);
    });

    async function counted(): Promise<number> {
      return JSON.parse((await it_.ask('rules', '-o', 'json')).stdout).spoofed.packets;
    }

    async function metric(): Promise<number> {
      const script = `fetch('http://127.0.0.1:9413/metrics').then((r) => r.text()).then(console.log)`;
      const { stdout } = await it_.topology.node.run([process.execPath, '-e', script]);
      return Number(/^nodewall_agent_spoofed_packets_total (\d+)$/m.exec(stdout)?.[1]);
    }

    itOnce('are judged by policies if antiSpoofing is off', async () => {
      await enforce(21_002, { antiSpoofing: false });
      assert.deepEqual(await arrived(), PACKETS.map(title).sort());
      assert.doesNotMatch(await it_.rules(), /spoof/);
    });

    it('pass where no policy is enforced', async () => {
      await enforce(21_003, {});
      assert.match(await it_.rules(), /spoof/);
      await it_.remove('policy.json');
      await until('the rules are gone', async () => !/spoof/.test(await it_.rules()), { detail: agent.log });
      assert.deepEqual(await arrived(), PACKETS.map(title).sort());
      const ingress = [{ action: 'Allow', ports: [tcp(21_004)] }, { action: 'Drop' }] as const;
      await it_.write('policy.json', [policy('audit', { mode: 'Audit', ingress })]);
      await it_.untilEnforced('21004', agent);
      assert.deepEqual(await arrived(), PACKETS.map(title).sort(), 'a policy that only audits');
    });
  },
  EITHER_IPTABLES,
);

function title({ what, family }: Packet): string {
  return `${what} (${family})`;
}

function host(address: string): object {
  return cidr(`${address}/${address.includes(':') ? 128 : 32}`);
}

function nodeObject(name: string, { v4, v6 }: { readonly v4: string; readonly v6: string }): object {
  const addresses = [v4, v6].map((address) => ({ type: 'InternalIP', address }));
  return { apiVersion: 'v1', kind: 'Node', metadata: { name }, status: { addresses } };
}

function podObject(name: string, { v4, v6 }: { readonly v4: string; readonly v6: string }): object {
  const status = { phase: 'Running', podIPs: [{ ip: v4 }, { ip: v6 }] };
  return { apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace: 'shop' }, status };
}

async function seenPorts(node: Namespace): Promise<ReadonlySet<number>> {
  const { stdout } = await node.run(['nft', '-j', 'list', 'set', 'inet', 'seen', 'ports']);
  const { nftables } = JSON.parse(stdout) as { nftables: { set?: { elem?: number[] } }[] };
  return new Set(nftables.flatMap(({ set }) => set?.elem ?? []));
}
