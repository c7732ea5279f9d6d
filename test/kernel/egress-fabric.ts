/**
 * Nodes for any scenario with egress gateways, in network namespaces: each with one interface of
 * pods, from which packets of any source come, and an uplink to a world that notes by which node
 * and with which source every packet left.
 */
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Netstate } from '../../apis/egress/netstate.ts';
import { createNamespace, type Namespace } from '../netns/namespace.ts';
import { probeProgram } from '../probe/probe.ts';

export interface FabricNode {
  readonly name: string;
  /** Addresses of its uplink, of either family. */
  readonly uplinks: readonly string[];
  /** Text of nft. */
  readonly rules: string;
  readonly netstate: Netstate;
  /** What is routed to its pods. */
  readonly sources: ReadonlySet<string>;
}

export interface FabricPacket {
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

export class EgressFabric {
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
