/**
 * The tunnel of egress gateways by WireGuard, with packets: what the nodes' network sees of it, who
 * is believed, and that nothing goes in clear while a part is missing. The nodes' states are made
 * by hand; rules and network configuration are those of an agent.
 */

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { WireGuardSocket } from 'nftables-napi';
import { createLogger } from 'winston';
import { NO_NETSTATE, toNetstate } from '../../agent/egress/render/netstate.ts';
import { outerAddress } from '../../agent/egress/render/tunnel.ts';
import { publicKeyText, savedKeys } from '../../agent/egress/wireguard-keys.ts';
import { rulesetText } from '../../agent/render/nft-text.ts';
import { render } from '../../agent/render/render.ts';
import { emptyNodeState } from '../../apis/compiled.ts';
import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import type {
  EgressArrival,
  EgressClass,
  EgressOutcome,
  EgressSlot,
  EgressTake,
  NodeEgress,
  TunnelEnd,
} from '../../apis/egress/node-egress.ts';
import { parseCidr } from '../../lib/net/address.ts';
import { type MemberSet, NO_MEMBERS, toMemberSet } from '../../lib/net/member-set.ts';
import { createEgressLab, type EgressLab, SERVER, SERVER_PORT } from './egress-lab.ts';
import { Keeper } from './ip-netstate.ts';
import { kernelSuite } from './kernel-suite.ts';
import { until } from './until.ts';
import { sendDatagrams, vxlanFrame } from './vxlan-frame.ts';

/** What a lab of nodes has; egress-lab.ts makes it of namespaces. */
interface Places {
  readonly nodes: readonly { readonly name: string; readonly v4: string; readonly v6: string }[];
  readonly pods: readonly {
    readonly name: string;
    readonly node: string;
    readonly v4: string;
    readonly v6: string;
  }[];
}

/** Pods, and the gateway nodes by one of which they leave, each with its own address. */
interface Steering {
  readonly pods: readonly string[];
  readonly gateways: readonly string[];
  readonly policy?: string;
}

const INSIDE: MemberSet = members([
  '10.244.0.0/16',
  'fd00:10:244::/48',
  '192.0.2.0/25',
  '2001:db8:a::/64',
  '169.254.0.0/16',
  'fe80::/10',
  '224.0.0.0/4',
  'ff00::/8',
]);

const ALL = { 4: { first: 0n, last: (1n << 32n) - 1n }, 6: { first: 0n, last: (1n << 128n) - 1n } } as const;
/** The one take of a gateway: its own address. */
const OWN_ADDRESS = 1;

function tunnelEnd({ nodes }: Places, name: string, family: 4 | 6 = 4): TunnelEnd {
  const index = nodes.findIndex((node) => node.name === name);
  const node = nodes[index];
  if (node === undefined) throw new Error(`no node ${name}`);
  const mac = `0e:00:00:00:00:${(index + 1).toString(16).padStart(2, '0')}`;
  return { node: name, address: family === 4 ? node.v4 : node.v6, mac };
}

/** What each node does. `unknown`: pods that the controller has not told the nodes of. */
function nodeEgress(
  places: Places,
  name: string,
  steerings: readonly Steering[],
  { unknown = [], underlay = 4 }: { readonly unknown?: readonly string[]; readonly underlay?: 4 | 6 } = {},
): NodeEgress {
  const own = places.pods.filter(({ node }) => node === name);
  const slots = new Map<number, EgressSlot>();
  const outcomes = new Map<string, EgressOutcome>();
  const classes = new Map<string, EgressClass>();
  const sources = new Map<string, string | null>();
  // The number of a gateway's slot is the same on all nodes: its place among them.
  const slotOf = (gateway: string): number => {
    const number = 1 + places.nodes.findIndex((node) => node.name === gateway);
    slots.set(number, { number, node: gateway, take: gateway === name ? OWN_ADDRESS : 0 });
    return number;
  };
  for (const { v4, v6, name: pod } of own) {
    if (unknown.includes(pod)) continue;
    const steering = steerings.find(({ pods }) => pods.includes(pod));
    for (const address of [v4, v6]) sources.set(address, steering === undefined ? null : toId(steering));
    if (steering === undefined) continue;
    const id = toId(steering);
    outcomes.set(id, {
      id,
      policy: {
        kind: 'EgressPolicy',
        namespace: 'default',
        name: steering.policy ?? 'steered',
        apiGroup: 'nodewall.io',
      },
      audited: [],
      action: { kind: 'slots', slots: steering.gateways.map(slotOf) },
    });
    classes.set(id, {
      id,
      ipv4: [{ range: ALL[4], outcome: id }],
      ipv6: [{ range: ALL[6], outcome: id }],
    });
  }
  const arrivals = new Map<string, EgressArrival>();
  const peers = new Map<string, TunnelEnd>();
  for (const steering of steerings.filter(({ gateways }) => gateways.includes(name))) {
    for (const pod of places.pods.filter((one) => steering.pods.includes(one.name) && one.node !== name)) {
      peers.set(pod.node, tunnelEnd(places, pod.node, underlay));
      for (const [address, range] of [
        [pod.v4, ALL[4]],
        [pod.v6, ALL[6]],
      ] as const)
        arrivals.set(address, { node: pod.node, takes: [{ range, take: OWN_ADDRESS }] });
    }
  }
  for (const { node } of slots.values())
    if (node !== name) peers.set(node, tunnelEnd(places, node, underlay));
  const isGateway = steerings.some(({ gateways }) => gateways.includes(name));
  const take: EgressTake = { kind: 'node', interface: null };
  return {
    tunnel: tunnelEnd(places, name, underlay),
    inside: INSIDE,
    unknownPods: 'Hold',
    nodes: toMemberSet(
      [],
      places.nodes.flatMap(({ v4, v6 }) => [v4, v6]),
    ),
    pods: new Map(),
    served: new Map(),
    sources,
    subnets: [],
    classes,
    outcomes,
    slots,
    peers,
    arrivals,
    takes: isGateway ? new Map([[OWN_ADDRESS, take]]) : new Map(),
    floating: NO_MEMBERS,
    owned: [],
    candidacies: [],
  };
}

function toId({ policy = 'steered', gateways }: Steering): string {
  return [policy, ...gateways].join(' ');
}

function members(cidrs: readonly string[]): MemberSet {
  return toMemberSet(
    cidrs.flatMap((text) => {
      const parsed = parseCidr(text);
      return parsed === null ? [] : [{ cidr: parsed.cidr, except: [] }];
    }),
    [],
  );
}

const FLOWS = ([4, 6] as const).flatMap((family) =>
  (['tcp', 'udp', 'icmp'] as const).map((protocol) => ({ family, protocol })),
);
const ANSWERED = FLOWS.map(() => 'reply');
const NODES = ['plain', 'gw-1', 'evil'];
const STEERINGS = [{ pods: ['plain-0', 'evil-0'], gateways: ['gw-1'] }];
const CONFIG: Config = {
  ...DEFAULT_CONFIG,
  egress: { ...DEFAULT_CONFIG.egress, encryption: 'WireGuard' },
};
/** An emulated guest is slow. */
const LONG = 120_000;
const HOST = { group: 10, underlayMtu: 1500, encrypts: true };
/** All that a node hears from and says to the network of nodes, before any rule and after all. */
const WIRE = `table inet wire {
  chain in { type filter hook prerouting priority -450; iifname eth0 jump seen; }
  chain out { type filter hook postrouting priority 900; oifname eth0 jump seen; }
  chain seen {
    udp dport 7792 counter comment "encrypted"
    udp dport 7790 counter comment "clear"
    ip saddr 10.244.0.0/16 counter comment "pod"
    ip6 saddr fd00:10:244::/48 counter comment "pod"
    ip frag-off & 0x3fff != 0 counter comment "fragment"
    ip6 saddr fd6e:6f64:6577:6c6c::/64 counter comment "inside"
  }
}
`;
/** A privileged process can give its packets the tunnel's own mark. */
const MARKED = `table inet forged { chain output { type filter hook output priority -310;
  udp dport 7790 meta mark set 0x40000000; }; }`;

kernelSuite('the tunnel of egress gateways by WireGuard', function () {
  this.timeout(1_800_000);
  let lab: EgressLab;
  let folder: string;
  const keys = new Map<string, string>();
  const keepers = new Map<string, Keeper>();
  const counted = new Map<string, Readonly<Record<string, number>>>();

  before(async function () {
    if (!(await hasWireGuard())) {
      process.stderr.write('skipped: WireGuard: this kernel has none; test/guests boots one that has\n');
      this.skip();
    }
    folder = await mkdtemp(join(tmpdir(), 'nodewall-wireguard-'));
    lab = await createEgressLab({ nodes: NODES, podsPerNode: 1 });
    for (const node of NODES)
      keys.set(node, publicKeyText(await savedKeys(join(folder, node), createLogger({ silent: true }))));
    for (const node of NODES) {
      const { namespace } = lab.node(node);
      await namespace.run(['nft', '-f', '-'], { stdin: WIRE });
      await loadRules(node);
      start(node);
      await apply(node);
    }
  });
  after(async () => {
    for (const keeper of keepers.values()) await keeper.kill();
    await lab?.close();
    if (folder !== undefined) await rm(folder, { recursive: true });
  });

  async function loadRules(node: string): Promise<void> {
    const rules = rulesetText(render({ ...emptyNodeState(node), egress: egressOf(node) }, CONFIG));
    await lab.node(node).namespace.run(['nft', '-f', '-'], { stdin: rules });
  }

  function start(node: string): void {
    keepers.set(node, new Keeper(lab.node(node).namespace, [], join(folder, node), LONG));
  }

  function end(node: string, known: ReadonlyMap<string, string> = keys): TunnelEnd {
    return { ...tunnelEnd(places(), node), key: known.get(node) ?? '' };
  }

  function places() {
    return { nodes: [...lab.nodes.values()], pods: [...lab.pods.values()] };
  }

  function egressOf(node: string, known = keys): NodeEgress {
    const value = nodeEgress(places(), node, STEERINGS);
    const peers = new Map([...value.peers.keys()].map((name) => [name, end(name, known)]));
    return { ...value, tunnel: end(node, known), peers };
  }

  async function apply(node: string, known = keys): Promise<readonly string[]> {
    const { problems, operations } = (await keepers
      .get(node)
      ?.apply(toNetstate(egressOf(node, known), HOST))) ?? {
      problems: ['no keeper'],
      operations: [],
    };
    assert.deepEqual(problems, []);
    return operations;
  }

  /** Packets at a node since the last time, by what they are. */
  async function wire(node: string): Promise<Readonly<Record<string, number>>> {
    const { stdout } = await lab.node(node).namespace.run(['nft', 'list', 'table', 'inet', 'wire']);
    const sums: Record<string, number> = {};
    for (const [, packets, what = ''] of stdout.matchAll(/packets (\d+).*comment "(\w+)"/g))
      sums[what] = (sums[what] ?? 0) + Number(packets);
    const before = counted.get(node) ?? {};
    counted.set(node, sums);
    return Object.fromEntries(Object.entries(sums).map(([what, sum]) => [what, sum - (before[what] ?? 0)]));
  }

  async function untilAnswered(pod: string): Promise<void> {
    await until(`${pod} has answers`, async () =>
      (await lab.ask(pod, FLOWS, 1_000)).every((one) => one === 'reply'),
    );
  }

  async function onlyByGateway(): Promise<void> {
    const { v4, v6 } = lab.node('gw-1');
    for (const address of (await lab.seen()).keys()) assert.ok([v4, v6].includes(address), address);
  }

  async function nothingInClear(): Promise<void> {
    for (const node of ['plain', 'gw-1']) {
      const { clear, pod, inside } = await wire(node);
      assert.deepEqual({ node, clear, pod, inside }, { node, clear: 0, pod: 0, inside: 0 });
    }
  }

  it('carries every protocol of both families, and the network sees UDP 7792 alone', async () => {
    await untilAnswered('plain-0');
    await untilAnswered('evil-0');
    await lab.forget();
    assert.deepEqual(await lab.ask('plain-0', FLOWS), ANSWERED);
    await onlyByGateway();
    assert.ok(((await wire('plain')).encrypted ?? 0) > FLOWS.length);
    await nothingInClear();
  });

  it('has room for what the MTU says, and no more', async () => {
    const { namespace } = lab.node('plain');
    const mtu = async (link: string) => {
      const { stdout } = await namespace.run(['ip', '-j', 'link', 'show', link]);
      return (JSON.parse(stdout) as { mtu: number }[])[0]?.mtu;
    };
    assert.deepEqual([await mtu('nodewall-wg'), await mtu('nodewall-egress')], [1440, 1370]);
    // What a packet has beside its payload.
    const payload = 1370 - 28;
    await wire('gw-1');
    const program = `const socket = require('node:dgram').createSocket('udp4');
      socket.once('message', () => process.exit(0));
      setInterval(() => socket.send(Buffer.alloc(${payload}), ${SERVER_PORT}, '${SERVER.v4}'), 1000);`;
    await lab.pod('plain-0').namespace.run([process.execPath, '-e', program]);
    assert.equal((await wire('gw-1')).fragment, 0);
    await nothingInClear();
  });

  it('believes no datagram in clear, whoever sends it', async () => {
    const { namespace } = lab.node('evil');
    await namespace.run(['nft', '-f', '-'], { stdin: MARKED });
    // As without its own rules: root of a node has what it wants.
    await namespace.run(['nft', 'delete', 'chain', 'inet', 'nodewall', 'egress-encrypt']);
    await lab.forget();
    for (const [from, pod] of [
      ['plain', 'plain-0'],
      ['evil', 'evil-0'],
    ] as const) {
      const [own, other] = [end('gw-1').mac, end(from).mac];
      const parts = { src: lab.pod(pod).v4, dst: SERVER.v4, port: SERVER_PORT };
      const bytes = vxlanFrame({ macs: [own, other], ...parts });
      await sendDatagrams(namespace, [], `${lab.node('gw-1').v4}/7790`, bytes);
    }
    assert.deepEqual([...(await lab.seen())], []);
    assert.equal((await wire('gw-1')).clear, 6, 'they did arrive');
    await namespace.run(['nft', 'delete', 'table', 'inet', 'forged']);
  });

  it('believes no address inside but that of the key', async () => {
    const { namespace } = lab.node('evil');
    const parts = { src: lab.pod('plain-0').v4, dst: SERVER.v4, port: SERVER_PORT };
    const bytes = vxlanFrame({ macs: [end('gw-1').mac, end('plain').mac], ...parts });
    const [gateway, plain] = [outerAddress(end('gw-1')), outerAddress(end('plain'))];
    await namespace.run(['nft', '-f', '-'], { stdin: MARKED });
    const ip = (...args: readonly string[]) => namespace.run(['ip', '-6', ...args]);
    await lab.forget();
    await ip('addr', 'add', `${plain}/128`, 'dev', 'lo', 'nodad');
    // With its own key and another's address, and then without WireGuard at all.
    for (const way of [
      ['dev', 'nodewall-wg'],
      ['via', lab.node('gw-1').v6, 'dev', 'eth0'],
    ]) {
      await ip('route', 'replace', `${gateway}/128`, ...way, 'src', plain);
      await sendDatagrams(namespace, [], `${gateway}/7790`, bytes);
      await ip('route', 'del', `${gateway}/128`);
    }
    assert.deepEqual([...(await lab.seen())], []);
    assert.ok(((await wire('gw-1')).inside ?? 0) > 0, 'they did arrive');
    // The rules alone keep the second one out, and the frame is one that counts.
    const other = lab.node('gw-1').namespace;
    await other.run(['nft', 'delete', 'chain', 'inet', 'nodewall', 'egress-decrypted']);
    await other.run(['nft', 'flush', 'chain', 'inet', 'nodewall', 'egress-outer']);
    await ip('route', 'add', `${gateway}/128`, 'via', lab.node('gw-1').v6, 'dev', 'eth0', 'src', plain);
    await sendDatagrams(namespace, [], `${gateway}/7790`, bytes);
    await until('it is believed', async () => (await lab.seen()).has(lab.node('gw-1').v4));
    await ip('route', 'del', `${gateway}/128`);
    await ip('addr', 'del', `${plain}/128`, 'dev', 'lo');
    await namespace.run(['nft', 'delete', 'table', 'inet', 'forged']);
    await other.run(['nft', 'delete', 'table', 'inet', 'nodewall']);
    await loadRules('gw-1');
  });

  it('goes on with the same key and peers after a restart', async () => {
    await keepers.get('plain')?.kill();
    assert.deepEqual(await lab.ask('plain-0', FLOWS), ANSWERED);
    start('plain');
    assert.deepEqual(await apply('plain'), []);
    assert.deepEqual(await lab.ask('plain-0', FLOWS), ANSWERED);
  });

  it('sends nothing to a node with another key, or with none', async () => {
    await wire('plain');
    await wire('gw-1');
    for (const key of [keys.get('evil') ?? '', '']) {
      await apply('plain', new Map([...keys, ['gw-1', key]]));
      await lab.forget();
      assert.deepEqual(
        await lab.ask('plain-0', FLOWS, 500),
        FLOWS.map(() => 'nothing'),
      );
      assert.deepEqual([...(await lab.seen())], []);
    }
    await nothingInClear();
    await apply('plain');
    await untilAnswered('plain-0');
  });

  it('puts the device back with its peers, and sends nothing in clear meanwhile', async () => {
    const { namespace } = lab.node('plain');
    await lab.forget();
    const stop = await lab.flood('plain-0', { family: 4, protocol: 'udp' }, 200);
    for (const link of ['nodewall-wg', 'nodewall-egress']) {
      await namespace.run(['ip', 'link', 'del', link]);
      await until(`${link} is back`, async () => {
        const { stdout } = await namespace.run(['ip', 'link', 'show', link], { anyStatus: true });
        return stdout.includes(link);
      });
      await untilAnswered('plain-0');
    }
    assert.ok((await stop()) > 0);
    await onlyByGateway();
    await nothingInClear();
  });

  it('is gone without a trace', async () => {
    const keeper = keepers.get('plain');
    assert.deepEqual((await keeper?.apply(NO_NETSTATE))?.problems, []);
    const { stdout } = await lab.node('plain').namespace.run(['ip', 'link']);
    assert.doesNotMatch(stdout, /nodewall/);
    const routes = await lab.node('plain').namespace.run(['ip', '-6', 'route', 'show', 'table', 'all']);
    assert.doesNotMatch(routes.stdout, /fd6e/);
  });
});

async function hasWireGuard(): Promise<boolean> {
  const socket = new WireGuardSocket();
  try {
    return await socket.isSupported();
  } finally {
    await socket.close();
  }
}
