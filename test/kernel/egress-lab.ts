/**
 * A cluster's nodes for egress gateways, in network namespaces: nodes with pods behind veth pairs
 * (link group `pods`), a switch that joins them, and a server outside of the cluster that counts
 * every packet by its source address. Dual stack.
 */
import { once } from 'node:events';
import { createNamespace, type Namespace } from '../netns/namespace.ts';
import { probeProgram } from '../probe/probe.ts';
import { flood } from './flood-tool.ts';

export interface LabPod {
  readonly name: string;
  readonly node: string;
  readonly v4: string;
  readonly v6: string;
  readonly namespace: Namespace;
}

interface LabNode {
  readonly name: string;
  readonly v4: string;
  readonly v6: string;
  readonly namespace: Namespace;
}

/** Milliseconds, at most, until all flows have an answer, from a process; pass less for silence. */
const ANSWERED_WITHIN = 3_000;

export interface EgressLab {
  readonly nodes: ReadonlyMap<string, LabNode>;
  /** By name: `NODE-INDEX`. */
  readonly pods: ReadonlyMap<string, LabPod>;
  readonly server: Namespace;
  node(name: string): LabNode;
  pod(name: string): LabPod;
  /** Packets that the server has seen since the last reset, by source address. */
  seen(): Promise<ReadonlyMap<string, number>>;
  forget(): Promise<void>;
  /** Cuts a node off (or the server), without a sign at either end, as if its power was lost. */
  port(name: string, state: 'up' | 'down'): Promise<void>;
  /**
   * Sends the first packet of each flow, of a connection that was never there before; returns for
   * each what came back (probe send).
   */
  ask(pod: string, flows: readonly LabFlow[], wait?: number): Promise<readonly string[]>;
  /**
   * Sends packets, each of a new connection, until the returned function is called, which gives
   * their number.
   */
  flood(pod: string, flow: LabFlow, rate: number): Promise<() => Promise<number>>;
  close(): Promise<void>;
}

export interface LabFlow {
  readonly family: 4 | 6;
  readonly protocol: 'tcp' | 'udp' | 'icmp';
  readonly srcPort?: number;
  /** Default: the pod's own address. */
  readonly src?: string;
}

export const SERVER = { v4: '198.51.100.100', v6: '2001:db8:f::100' } as const;
export const SERVER_PORT = 7000;
const POD_NETWORKS = { v4: '10.244.0.0/16', v6: 'fd00:10:244::/48' } as const;

interface LabPlan {
  readonly nodes: readonly string[];
  readonly podsPerNode: number;
  /** MTU of the nodes' interfaces; default 1500. */
  readonly mtu?: number;
}

/** The names say what the test means the nodes to be; they are made alike. */
const LAB: LabPlan = { nodes: ['plain', 'other', 'gw-1', 'gw-2'], podsPerNode: 2 };

const SYSCTLS: readonly string[] = [
  'net.ipv4.ip_forward=1',
  'net.ipv6.conf.all.forwarding=1',
  'net.ipv6.conf.all.accept_dad=0',
  'net.ipv6.conf.default.accept_dad=0',
  'net.ipv6.conf.default.dad_transmits=0',
  'net.ipv6.conf.all.accept_ra=0',
  'net.ipv6.conf.default.accept_ra=0',
  // A distribution's default, and the hardest for a tunnel.
  'net.ipv4.conf.all.rp_filter=1',
  'net.ipv4.conf.default.rp_filter=1',
  'net.ipv4.icmp_ratelimit=0',
  'net.ipv6.icmp.ratelimit=0',
];

/**
 * What a CNI does for pods that leave the cluster: masquerade at priority 100. Its counter tells
 * whether it saw a connection.
 */
const CNI = `table inet cni {
  chain postrouting { type nat hook postrouting priority 100;
    ip saddr ${POD_NETWORKS.v4} ip daddr != ${POD_NETWORKS.v4} counter masquerade
    ip6 saddr ${POD_NETWORKS.v6} ip6 daddr != ${POD_NETWORKS.v6} counter masquerade
  }
}
`;

/** Elements with counters; the set takes what it has not seen. */
const SEEN = `table inet seen {
  set v4 { type ipv4_addr; flags dynamic; size 65535; }
  set v6 { type ipv6_addr; flags dynamic; size 65535; }
  chain prerouting { type filter hook prerouting priority -300;
    iif != "lo" ip daddr ${SERVER.v4} update @v4 { ip saddr counter }
    iif != "lo" ip6 daddr ${SERVER.v6} update @v6 { ip6 saddr counter }
  }
}
`;

const PROTOCOLS = { tcp: 6, udp: 17 } as const;
/** Above those that short floods get to: its connection would be one that is known. */
const FIRST_PORT = 55_000;

function nodeAddresses(index: number): { readonly v4: string; readonly v6: string } {
  return { v4: `192.0.2.${index + 11}`, v6: `2001:db8:a::${index + 11}` };
}

function podAddresses(node: number, index: number): { readonly v4: string; readonly v6: string } {
  return { v4: `10.244.${node + 1}.${index + 10}`, v6: `fd00:10:244:${node + 1}::${index + 10}` };
}

/** Everything is gone after close(), or when this process dies. */
export async function createEgressLab(plan: LabPlan = LAB): Promise<EgressLab> {
  const podNames = plan.nodes.flatMap((node) =>
    Array.from({ length: plan.podsPerNode }, (_, i) => `${node}-${i}`),
  );
  const names = ['switch', 'server', ...plan.nodes, ...podNames];
  const created = await Promise.allSettled(names.map((name) => createNamespace(name)));
  const all = new Map(
    created.flatMap((one) => (one.status === 'fulfilled' ? [[one.value.name, one.value] as const] : [])),
  );
  const close = async () => void (await Promise.all([...all.values()].map((one) => one.close())));
  try {
    for (const one of created) if (one.status === 'rejected') throw one.reason;
    return await build(plan, all, close);
  } catch (error) {
    await close();
    throw error;
  }
}

async function build(
  plan: LabPlan,
  all: ReadonlyMap<string, Namespace>,
  close: () => Promise<void>,
): Promise<EgressLab> {
  const of = (name: string): Namespace => all.get(name) ?? fail(`no namespace ${name}`);
  const batch = (name: string, lines: readonly string[]) =>
    of(name).run(['ip', '-batch', '-'], { stdin: `${lines.join('\n')}\n` });
  await Promise.all([...all.values()].map((one) => one.run(['sysctl', '-q', '-w', ...SYSCTLS])));
  const hosts = ['server', ...plan.nodes];
  await batch('switch', [
    'link add br0 type bridge',
    'link set br0 up',
    ...hosts.flatMap((host, i) => [
      `link add p${i} mtu ${plan.mtu ?? 1500} type veth peer name eth0 mtu ${plan.mtu ?? 1500} netns ${of(host).pid}`,
      `link set p${i} master br0 up`,
    ]),
  ]);
  const nodes = new Map<string, LabNode>();
  const pods = new Map<string, LabPod>();
  for (const [i, name] of plan.nodes.entries()) {
    nodes.set(name, { name, ...nodeAddresses(i), namespace: of(name) });
    for (let j = 0; j < plan.podsPerNode; j++) {
      const pod = `${name}-${j}`;
      pods.set(pod, { name: pod, node: name, ...podAddresses(i, j), namespace: of(pod) });
    }
  }
  await Promise.all([
    batch('server', serverLines()),
    ...plan.nodes.map((_, i) => batch(plan.nodes[i] ?? '', nodeLines(plan, i, of))),
  ]);
  await Promise.all([...pods.values()].map((pod) => batch(pod.name, podLines(pod))));
  await Promise.all(
    [...nodes.values()].map(({ namespace }) => namespace.run(['nft', '-f', '-'], { stdin: CNI })),
  );
  const server = of('server');
  await server.run(['nft', '-f', '-'], { stdin: SEEN });
  const program = await probeProgram();
  const listener = server.spawn([program, 'listen', `tcp:${SERVER_PORT}`, `udp:${SERVER_PORT}`]);
  await once(listener.stdout, 'data');
  const pod = (name: string): LabPod => pods.get(name) ?? fail(`no pod ${name}`);
  let asked = 1;
  return {
    nodes,
    pods,
    server,
    node: (name) => nodes.get(name) ?? fail(`no node ${name}`),
    pod,
    seen: () => seenBy(server),
    forget: async () => {
      await server.run(['nft', '-f', '-'], { stdin: 'flush set inet seen v4\nflush set inet seen v6\n' });
    },
    async port(name, state) {
      // disabled, forwarding
      const number = state === 'down' ? '0' : '3';
      await of('switch').run(['bridge', 'link', 'set', 'dev', `p${hosts.indexOf(name)}`, 'state', number]);
    },
    ask: (name, flows, wait = ANSWERED_WITHIN) => {
      const first = asked;
      asked += flows.length;
      return ask(program, pod(name), { flows, first, wait });
    },
    flood: (name, flow, rate) => startFlood(pod(name), flow, rate),
    close,
  };
}

function serverLines(): string[] {
  return [
    'link set lo up',
    'link set eth0 up',
    'addr add 192.0.2.100/24 dev eth0',
    'addr add 2001:db8:a::100/64 dev eth0 nodad',
    `addr add ${SERVER.v4}/32 dev lo`,
    `addr add ${SERVER.v6}/128 dev lo nodad`,
  ];
}

function nodeLines(plan: LabPlan, index: number, of: (name: string) => Namespace): string[] {
  const { v4, v6 } = nodeAddresses(index);
  const lines = [
    'link set lo up',
    'link set eth0 up',
    `addr add ${v4}/24 dev eth0`,
    `addr add ${v6}/64 dev eth0 nodad`,
    'route add default via 192.0.2.100',
    'route add default via 2001:db8:a::100',
  ];
  for (let j = 0; j < plan.podsPerNode; j++) {
    const pod = podAddresses(index, j);
    lines.push(
      `link add pod${j} type veth peer name eth0 netns ${of(`${plan.nodes[index]}-${j}`).pid}`,
      `link set pod${j} group 8 up`,
      `addr add 169.254.77.1/32 dev pod${j}`,
      `addr add fe80::1/64 dev pod${j} nodad`,
      `route add ${pod.v4}/32 dev pod${j}`,
      `route add ${pod.v6}/128 dev pod${j}`,
    );
  }
  for (const i of plan.nodes.keys()) {
    if (i === index) continue;
    const other = nodeAddresses(i);
    lines.push(
      `route add 10.244.${i + 1}.0/24 via ${other.v4}`,
      `route add fd00:10:244:${i + 1}::/64 via ${other.v6}`,
    );
  }
  return lines;
}

function podLines({ v4, v6 }: LabPod): string[] {
  return [
    'link set lo up',
    'link set eth0 up',
    `addr add ${v4}/32 dev eth0`,
    `addr add ${v6}/128 dev eth0 nodad`,
    'route add 169.254.77.1 dev eth0',
    'route add default via 169.254.77.1 dev eth0',
    'route add default via fe80::1 dev eth0',
  ];
}

async function seenBy(server: Namespace): Promise<ReadonlyMap<string, number>> {
  const seen = new Map<string, number>();
  for (const set of ['v4', 'v6']) {
    const { stdout } = await server.run(['nft', 'list', 'set', 'inet', 'seen', set]);
    for (const [, address = '', packets] of stdout.matchAll(/([0-9a-f.:]+) counter packets (\d+)/g))
      seen.set(address, Number(packets));
  }
  return seen;
}

function line(pod: LabPod, flow: LabFlow, id: number): string {
  const [src, dst] = flow.family === 4 ? [pod.v4, SERVER.v4] : [pod.v6, SERVER.v6];
  const from = flow.src ?? src;
  if (flow.protocol === 'icmp') {
    const [protocol, icmpType] = flow.family === 4 ? [1, 8] : [58, 128];
    return JSON.stringify({ id, src: from, dst, protocol, icmpType });
  }
  const srcPort = flow.srcPort ?? FIRST_PORT + id;
  return JSON.stringify({
    id,
    src: from,
    dst,
    protocol: PROTOCOLS[flow.protocol],
    srcPort,
    dstPort: SERVER_PORT,
  });
}

interface Asked {
  readonly flows: readonly LabFlow[];
  /** Number of the first one. */
  readonly first: number;
  /** Milliseconds. */
  readonly wait: number;
}

async function ask(program: string, pod: LabPod, { flows, first, wait }: Asked): Promise<readonly string[]> {
  const stdin = flows.map((flow, i) => `${line(pod, flow, first + i)}\n`).join('');
  const argv = [program, 'send', '--within', String(wait), '--interface', 'eth0'];
  const { stdout } = await pod.namespace.run(argv, { stdin });
  return stdout
    .trim()
    .split('\n')
    .map((text) => (JSON.parse(text) as { saw: string }).saw);
}

function startFlood(pod: LabPod, flow: LabFlow, rate: number): Promise<() => Promise<number>> {
  const { src, dst, protocol } = JSON.parse(line(pod, flow, 1));
  return flood(pod.namespace, { src, dst, protocol, port: SERVER_PORT, rate });
}

function fail(message: string): never {
  throw new Error(message);
}
