/**
 * Random clusters with egress gateways in the kernel: by which node and with which address each
 * packet leaves, as the oracle, explain and the compiled nodes say.
 *
 * NODEWALL_SEED=N runs that one scenario; NODEWALL_PROBES=N sends so many packets (10,000).
 */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import fc from 'fast-check';
import { toNetstate } from '../../agent/egress/render/netstate.ts';
import { rulesetText } from '../../agent/render/nft-text.ts';
import { render } from '../../agent/render/render.ts';
import { emptyNodeState } from '../../apis/compiled.ts';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import type { Netstate } from '../../apis/egress/netstate.ts';
import type { EgressTake, NodeEgress } from '../../apis/egress/node-egress.ts';
import { nodeEgressCompiler } from '../../controller/egress/node-egress.ts';
import { parseAddress } from '../../lib/net/address.ts';
import { type EgressScenario, egressScenario } from '../generate/egress/egress-scenario.ts';
import { createNamespace, type Namespace } from '../netns/namespace.ts';
import type { EgressAnswer } from '../oracle/egress/permission.ts';
import { probeProgram } from '../probe/probe.ts';
import { agreeOnEgress } from '../properties/egress-agree.ts';
import { agreeOnNodes } from '../properties/egress-nodes.ts';
import { packetsOf, walkPacket } from '../properties/egress-walk.ts';
import { withAlive } from '../tracer/egress-table.ts';
import { kernelSuite } from './kernel-suite.ts';

interface FabricNode {
  readonly name: string;
  /** Addresses of its uplink, of either family. */
  readonly uplinks: readonly string[];
  /** Text of nft. */
  readonly rules: string;
  readonly netstate: Netstate;
  /** What is routed to its pods. */
  readonly sources: ReadonlySet<string>;
}

interface FabricPacket {
  /** Its UDP port, of no other packet of the scenario. */
  readonly port: number;
  readonly node: string;
  readonly src: string;
  readonly dst: string;
}

const SYSCTLS = [
  ...['net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1'],
  ...['all', 'default'].flatMap((of) => [
    ...[`net.ipv4.conf.${of}.rp_filter=0`, `net.ipv6.conf.${of}.accept_dad=0`],
    ...[`net.ipv6.conf.${of}.dad_transmits=0`, `net.ipv6.conf.${of}.accept_ra=0`],
  ]),
];

const WORLD = `table inet seen {
  set v4 { type ether_addr . ipv4_addr . inet_service; flags dynamic; size 65535; }
  set v6 { type ether_addr . ipv6_addr . inet_service; flags dynamic; size 65535; }
  chain prerouting { type filter hook prerouting priority -300;
    meta nfproto ipv4 meta l4proto udp update @v4 { ether saddr . ip saddr . udp dport } drop
    meta nfproto ipv6 meta l4proto udp update @v6 { ether saddr . ip6 saddr . udp dport } drop
  }
}
`;
const [WORLD_MAC, WORLD_ADDRESS] = ['02:00:00:00:00:fe', 'fe80::fe'];
const PODS_MAC = '02:00:00:00:01:00';
/** Routes of one scenario. */
const PROTOCOL = '200';
const [UNDERLAY, OUTWARD] = ['100', '101'];
const SEND_TOGETHER = 100;

interface Place {
  readonly node: Namespace;
  readonly pods: Namespace;
  readonly mac: string;
  readonly keeper: ReturnType<Namespace['spawn']>;
  readonly said: AsyncIterator<string>;
}

class EgressFabric {
  readonly #world: Namespace;
  readonly #all: readonly Namespace[];
  readonly #places: readonly Place[];
  readonly #probe: string;
  #at = new Map<string, Place>();

  static async create(count: number): Promise<EgressFabric> {
    const numbers = Array.from({ length: count }, (_, i) => i);
    const names = ['world', 'switch', ...numbers.flatMap((i) => [`node-${i}`, `pods-${i}`])];
    const all = await Promise.all(names.map((name) => createNamespace(name)));
    const of = (name: string): Namespace => all[names.indexOf(name)] ?? fail(name);
    await Promise.all(all.map((one) => one.run(['sysctl', '-q', '-w', ...SYSCTLS])));
    const world = of('world');
    await batch(of('switch'), [
      'link add br0 type bridge mcast_snooping 0',
      'link set br0 up',
      ...['world', ...numbers.map((i) => `node-${i}`)].flatMap((host, i) => [
        `link add p${i} type veth peer name eth0 address ${macOf(host)} netns ${of(host).pid}`,
        `link set p${i} master br0 up`,
      ]),
    ]);
    await batch(world, ['link set lo up', 'link set eth0 up', `addr add ${WORLD_ADDRESS}/64 dev eth0 nodad`]);
    await world.run(['nft', '-f', '-'], { stdin: WORLD });
    const places = await Promise.all(numbers.map((i) => place(of(`node-${i}`), of(`pods-${i}`))));
    return new EgressFabric(all, world, places, await probeProgram());
  }

  private constructor(all: readonly Namespace[], world: Namespace, places: readonly Place[], probe: string) {
    this.#all = all;
    this.#world = world;
    this.#places = places;
    this.#probe = probe;
  }

  /** Puts these nodes in the place of those of before. */
  async load(nodes: readonly FabricNode[]): Promise<void> {
    this.#at = new Map(nodes.map(({ name }, i) => [name, this.#places[i] ?? fail(name)]));
    const underlay = nodes.flatMap(({ uplinks }, i) => uplinks.map((address) => ({ address, at: i })));
    await Promise.all(nodes.map((node, i) => this.#loadOne(node, i, underlay)));
  }

  async #loadOne(
    { rules, netstate, uplinks, sources }: FabricNode,
    index: number,
    underlay: readonly { readonly address: string; readonly at: number }[],
  ): Promise<void> {
    const { node, keeper, said } = this.#places[index] ?? fail(`${index}`);
    await node.run(['nft', 'flush', 'ruleset']);
    await node.run(['conntrack', '-F']);
    await node.run([
      'sh',
      '-c',
      `ip addr flush dev eth0 scope global; for f in -4 -6; do ip $f route flush proto ${PROTOCOL} table all; done`,
    ]);
    await batch(node, [
      ...uplinks.map(
        (address) => `addr add ${host(address)} dev eth0${address.includes(':') ? ' nodad' : ''}`,
      ),
      `route replace 0.0.0.0/0 via inet6 ${WORLD_ADDRESS} dev eth0 proto ${PROTOCOL} table ${OUTWARD}`,
      `route replace ::/0 via ${WORLD_ADDRESS} dev eth0 proto ${PROTOCOL} table ${OUTWARD}`,
      ...[...sources]
        .filter((address) => !uplinks.includes(address))
        .map((address) => `route replace ${host(address)} dev pods proto ${PROTOCOL}`),
      ...underlay
        .filter(({ at }) => at !== index)
        .flatMap(({ address, at }) => [
          `route replace ${host(address)} dev eth0 proto ${PROTOCOL} table ${UNDERLAY}`,
          `neigh replace ${address} lladdr ${macOf(`node-${at}`)} dev eth0 nud permanent`,
        ]),
    ]);
    await node.run(['nft', '-f', '-'], { stdin: rules });
    keeper.stdin.write(`${JSON.stringify(netstate)}\n`);
    const { applied } = JSON.parse((await said.next()).value ?? '{}');
    if (applied?.problems.length !== 0) throw new Error(JSON.stringify(applied));
  }

  /** Of each packet that left, by its port: `NODE SOURCE`, of each time that it was seen. */
  async send(packets: readonly FabricPacket[]): Promise<ReadonlyMap<number, readonly string[]>> {
    await this.#world.run(['nft', '-f', '-'], { stdin: 'flush set inet seen v4\nflush set inet seen v6\n' });
    await Promise.all([...this.#at].map(([name, at]) => this.#sendFrom(at, packets, name)));
    const { stdout } = await this.#world.run(['nft', '-nn', 'list', 'table', 'inet', 'seen']);
    const names = new Map([...this.#at].map(([name, { mac }]) => [mac, name]));
    const seen = new Map<number, string[]>();
    for (const [, mac = '', source, port] of stdout.matchAll(/([0-9a-f:]{17}) \. ([0-9a-f.:]+) \. (\d+)/g))
      seen.set(Number(port), [...(seen.get(Number(port)) ?? []), `${names.get(mac)} ${source}`]);
    return seen;
  }

  async #sendFrom({ pods }: Place, packets: readonly FabricPacket[], name: string): Promise<void> {
    const own = packets.filter(({ node }) => node === name);
    for (let i = 0; i < own.length; i += SEND_TOGETHER) {
      const lines = own.slice(i, i + SEND_TOGETHER).map(({ src, dst, port }) => {
        const flow = { id: port, src, dst, protocol: 17, srcPort: 40_000, dstPort: port };
        return `${JSON.stringify(flow)}\n`;
      });
      const argv = [this.#probe, 'send', '--wait', '40', '--interface', 'eth0'];
      await pods.run(argv, { stdin: lines.join('') });
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#all.map((one) => one.close()));
  }
}

async function place(node: Namespace, pods: Namespace): Promise<Place> {
  await batch(node, [
    'link set lo up',
    'link set eth0 up',
    `neigh replace ${WORLD_ADDRESS} lladdr ${WORLD_MAC} dev eth0 nud permanent`,
    `link add pods address ${PODS_MAC} type veth peer name eth0 netns ${pods.pid}`,
    'link set pods group 8 up',
    'addr add 169.254.77.1/32 dev pods',
    'addr add fe80::1/64 dev pods nodad',
  ]);
  const rules = [
    // The tunnel's own packets; all else that is not here leaves to the world, other pods' too.
    `pref 50 ipproto udp dport 7790 lookup ${UNDERLAY}`,
    ...['pods', 'nodewall-egress'].map((from) => `pref 100 iif ${from} lookup ${OUTWARD}`),
  ];
  await node.run(['sh', '-e'], {
    stdin: rules.flatMap((it) => [`ip rule add ${it}`, `ip -6 rule add ${it}`]).join('\n'),
  });
  await batch(pods, [
    'link set lo up',
    'link set eth0 up',
    'addr add 169.254.77.2/32 dev eth0',
    'route add 169.254.77.1 dev eth0',
    'route add default via 169.254.77.1 dev eth0',
    'route add default via fe80::1 dev eth0',
    ...['169.254.77.1', 'fe80::1'].map((to) => `neigh add ${to} lladdr ${PODS_MAC} dev eth0 nud permanent`),
  ]);
  const keeper = node.spawn([process.execPath, join(import.meta.dirname, 'netstate-child.ts')]);
  keeper.stderr.pipe(process.stderr);
  const said = onlyApplied(createInterface({ input: keeper.stdout }));
  await once(keeper, 'spawn');
  return { node, pods, mac: macOf(node.name), keeper, said };
}

async function* onlyApplied(lines: AsyncIterable<string>): AsyncGenerator<string> {
  for await (const line of lines) if (line.startsWith('{"applied"')) yield line;
}

async function batch(namespace: Namespace, lines: readonly string[]): Promise<void> {
  await namespace.run(['ip', '-batch', '-'], { stdin: `${lines.join('\n')}\n` });
}

function macOf(name: string): string {
  return name === 'world' ? WORLD_MAC : `02:00:00:00:00:0${name.slice(-1)}`;
}

function host(address: string): string {
  return `${address}/${address.includes(':') ? 128 : 32}`;
}

function fail(message: string): never {
  throw new Error(message);
}

const MOST_NODES = 5;
const PROBES = Number(process.env.NODEWALL_PROBES ?? 10_000);
const FLOWS = 160;
const HOST = { group: 10, underlayMtu: 1500 } as const;
const FIRST_PORT = 10_000;
/** What no router sends on. */
const UNROUTED = /^0\.|^255\.255\.255\.255$|^::$/;

kernelSuite('egress gateways: the kernel agrees with the oracle', function () {
  this.timeout(1_800_000);
  let fabric: EgressFabric;
  before(async () => {
    fabric = await EgressFabric.create(MOST_NODES);
  });
  after(() => fabric?.close());

  it(`${PROBES} packets of random clusters`, async () => {
    const only = process.env.NODEWALL_SEED;
    const tried = new Map<string, number>();
    let count = 0;
    for (let seed = Number(only ?? Date.now() % 1_000_000); count < PROBES; seed++) {
      count += await agree(fabric, seed, tried);
      if (only !== undefined) return;
    }
    process.stdout.write(`      ${count} packets: ${JSON.stringify(Object.fromEntries(tried))}\n`);
    for (const kind of [
      'Gateway here',
      'Gateway elsewhere',
      'Direct policy',
      'Drop policy',
      'Drop not-ready',
    ])
      assert.ok((tried.get(kind) ?? 0) >= PROBES / 1_000, `${kind}: ${tried.get(kind) ?? 0}`);
  });
});

/** @returns how many packets were sent */
async function agree(fabric: EgressFabric, seed: number, tried: Map<string, number>): Promise<number> {
  const [scenario = assert.fail()] = fc.sample(egressScenario(4 + (seed % 3) * 4, FLOWS), {
    seed,
    numRuns: 1,
  });
  const agreed = agreeOnEgress(scenario, new Map());
  const views = nodeEgressCompiler()(agreed.compiled);
  agreeOnNodes(scenario, agreed, views, new Map());
  const packets = scenario.flows
    .flatMap((flow) => packetsOf(flow, scenario.objects))
    .filter(({ dst }) => !UNROUTED.test(dst))
    .map((packet, i) => ({ ...packet, port: FIRST_PORT + i }));
  await fabric.load(toNodes(scenario, views, packets));
  const seen = await fabric.send(packets);
  const wrong = packets.flatMap((packet) => {
    const ends = walkPacket(views, packet);
    const wanted = ends.map((end) => endText(end, packet, scenario));
    const found = seen.get(packet.port) ?? ['nothing'];
    const [end] = ends;
    const where = end?.node === packet.node ? 'here' : 'elsewhere';
    const kind = end?.verdict === 'Gateway' ? `Gateway ${where}` : `${end?.verdict} ${end?.reason}`;
    tried.set(kind, (tried.get(kind) ?? 0) + 1);
    // Not all of them are sent on by a router.
    if (end?.reason === 'inside' && found[0] === 'nothing') return [];
    if (found.length === 1 && wanted.includes(found[0] ?? '')) return [];
    return [`${JSON.stringify(packet)}: ${found.join(', ')}; not ${wanted.join(' or ')} (${kind})`];
  });
  assert.deepEqual(wrong.slice(0, 10), [], `NODEWALL_SEED=${seed}: ${wrong.length} of ${packets.length}`);
  return packets.length;
}

function endText(end: EgressAnswer, { node, src }: FabricPacket, scenario: EgressScenario): string {
  if (end.verdict === 'Drop') return 'nothing';
  if (end.verdict === 'Direct') return `${node} ${src}`;
  const at = end.node ?? node;
  const isIPv6 = src.includes(':');
  const address = end.address ?? uplinksOf(at, scenario).find((one) => one.includes(':') === isIPv6);
  return address === undefined ? 'nothing' : `${at} ${address}`;
}

function toNodes(
  scenario: EgressScenario,
  views: ReadonlyMap<string, NodeEgress>,
  packets: readonly FabricPacket[],
): FabricNode[] {
  return [...views].map(([name, view]) => {
    const uplinks = uplinksOf(name, scenario);
    const egress = { ...view, takes: withFound(view.takes, uplinks) };
    const alive = egress.owned.flatMap(({ addresses }) => addresses);
    const ruleset = withAlive(render({ ...emptyNodeState(name), egress }, DEFAULT_CONFIG), alive);
    const sources = new Set(packets.flatMap(({ node, src }) => (node === name ? src : [])));
    return { name, uplinks, rules: rulesetText(ruleset), netstate: toNetstate(egress, HOST), sources };
  });
}

/** As an agent does it where the uplink has the name. */
function withFound(takes: NodeEgress['takes'], uplinks: readonly string[]): NodeEgress['takes'] {
  const [ipv4, ipv6] = [false, true].map((isIPv6) => uplinks.find((one) => one.includes(':') === isIPv6));
  const found = { ...(ipv4 === undefined ? {} : { ipv4 }), ...(ipv6 === undefined ? {} : { ipv6 }) };
  return new Map(
    [...takes].map(([number, take]): [number, EgressTake] => [
      number,
      take.kind === 'node' && take.interface !== null ? { ...take, found } : take,
    ]),
  );
}

/** Its InternalIPs; of a family without one, the addresses that an annotation gives it. */
function uplinksOf(name: string, { objects }: EgressScenario): string[] {
  const found = (objects as readonly NodeLike[]).find(
    ({ kind, metadata }) => kind === 'Node' && metadata.name === name,
  );
  const { status, metadata } = found ?? {};
  const internal = (status?.addresses ?? []).flatMap(({ type, address }) =>
    type === 'InternalIP' ? address : [],
  );
  const annotated = (metadata?.annotations?.['nodewall.io/addresses'] ?? '')
    .split(',')
    .map((text) => text.trim())
    .filter((text) => parseAddress(text) !== null)
    .filter((text) => !internal.some((one) => one.includes(':') === text.includes(':')));
  return [...internal, ...annotated];
}

interface NodeLike {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly annotations?: Readonly<Record<string, string>> };
  readonly status?: { readonly addresses?: readonly { readonly type: string; readonly address: string }[] };
}
