import { type EgressAgents, egressAgents, egressPolicy, gateway } from '../../test/kernel/egress-agents.ts';
import { createEgressLab, type EgressLab, SERVER } from '../../test/kernel/egress-lab.ts';
import { openConnections, type Rate, rotated } from '../measure/connections.ts';
import { amount, atLeast, atMost, type Benchmark, type Figure, figure } from '../measure/figure.ts';
import { iperf3, type Stream } from '../measure/iperf3.ts';
import { median } from '../measure/statistics.ts';

const POLICIES = 5_000;
const RATE_PORT = 7100;
const STREAM_PORT = 7200;
/** What one link of a server carries; it does not take all of a processor. */
const LINK = '10G';

/**
 * One policy, or as many as a large cluster has, each for the pod and another destination; the bare
 * tunnel with the routes and the masquerade alone; the same with connection tracking at the pod's
 * node, as every node has it that runs kube-proxy; agents with the feature gate off; and the same
 * on nodes that have one routing rule (`ip rule`), whatever it says, as WireGuard or Cilium make
 * it: from the first one on the kernel looks up every route in another way.
 */
const SETUPS = ['one', 'many', 'bare', 'tracked', 'off', 'ruled'] as const;
type Setup = (typeof SETUPS)[number];

interface Place {
  readonly name: Setup;
  /** By pod: plain-0 is steered, plain-1 is not. */
  readonly connections: Readonly<Record<string, (seconds: number) => Promise<Rate>>>;
  stream(pod: string): Promise<Stream>;
  close(): Promise<void>;
}

export const egressTraffic: Benchmark = {
  name: 'egress-traffic',
  title: 'traffic through an egress gateway',
  how: `A pod, its node, a gateway node and a server, each in a namespace of its own, stand-alone agents; \`test/probe crr\` and iperf3 from the pod to the server on one processor at a high priority, by turns, streams held to what a link of 10 Gbit/s carries: one policy, ${POLICIES.toLocaleString('en')} policies for the pod (the last destination in order is the server), the same tunnel without nodewall (VXLAN device, routes, masquerade at the gateway), this with connection tracking at the pod's node too, agents with the feature gate off, and the same on nodes with one routing rule that no packet matches. Other traffic is that of a pod that no policy selects. Closed connections do not wait at the client (TIME_WAIT), so that it does not search for ports. Processor time is that of client, server and all packets between them, without other work on the machine; a share of it is of the same turn.`,
  async run(settings) {
    const values = new Map<string, number[]>();
    const add = (key: string, value: number): void =>
      void values.set(key, [...(values.get(key) ?? []), value]);
    const { rounds, bursts, seconds } = amount(settings, [
      { rounds: 1, bursts: 2, seconds: 0.25 },
      { rounds: 1, bursts: 4, seconds: 0.4 },
      { rounds: 3, bursts: 7, seconds: 0.4 },
    ]);
    for (let round = 0; round < rounds; round++) {
      const places: Place[] = [];
      try {
        for (const name of rotated(SETUPS, round)) places.push(await open(name));
        for (let burst = 0; burst < bursts; burst++)
          for (const place of rotated(places, burst))
            for (const pod of podsOf(place.name)) {
              const rate = await place.connections[pod]?.(seconds);
              add(`${place.name} ${pod} connection`, rate?.own ?? Number.NaN);
              const { megabits, own } = await place.stream(pod);
              add(`${place.name} ${pod} megabits`, megabits);
              add(`${place.name} ${pod} megabit`, own);
            }
      } finally {
        for (const place of places) await place.close();
      }
    }
    return toFigures((key) => values.get(key) ?? []);
  },
};

function podsOf(name: Setup): readonly string[] {
  if (name === 'one') return ['plain-0', 'plain-1'];
  return [name === 'off' || name === 'ruled' ? 'plain-1' : 'plain-0'];
}

function toFigures(of: (key: string) => readonly number[]): Figure[] {
  const [own, other] = ['one plain-0', 'one plain-1'];
  const many = ['many plain-0', `${POLICIES.toLocaleString('en')} policies against one`] as const;
  const [bare, off] = ['bare plain-0', 'off plain-1'];
  const ratio = (key: string, against: string): number[] =>
    of(key).map((value, i) => (100 * value) / (of(against)[i] ?? Number.NaN));
  const note = (key: string, against: string, unit: string): string =>
    [key, against].map((one) => Math.round(median(of(one))).toLocaleString('en')).join(' against ') +
    ` ${unit}`;
  const rate = (what: string, key: string, against: string, least: number) => {
    const keys = [`${key} megabits`, `${against} megabits`] as const;
    return figure(`iperf3 TCP of ${LINK}bit/s, ${what}`, '%', ratio(...keys), {
      target: atLeast(least),
      note: note(...keys, 'Mbit/s'),
    });
  };
  const times = (
    what: string,
    key: string,
    against: string,
    most: { readonly connection?: number; readonly megabit?: number } = {},
  ) =>
    (['connection', 'megabit'] as const).map((unit) => {
      const limit = most[unit];
      const keys = [`${key} ${unit}`, `${against} ${unit}`] as const;
      return figure(`processor time of a ${unit}, ${what}`, '%', ratio(...keys), {
        target: limit === undefined ? null : atMost(limit),
        note: note(...keys, 'µs'),
      });
    });
  return [
    rate(many[1], many[0], own, 98),
    ...times(many[1], many[0], own, { connection: 102, megabit: 102 }),
    rate('one policy against the bare tunnel', own, bare, 97),
    ...times('one policy against the bare tunnel', own, bare, { megabit: 103 }),
    ...times('one policy against the bare tunnel with connection tracking', own, 'tracked plain-0'),
    rate('other pods, gate on against off', other, off, 99),
    ...times('other pods, gate on against off', other, off, { connection: 101, megabit: 101 }),
    ...times('other pods, gate on against off where the node has a routing rule', other, 'ruled plain-1'),
  ];
}

async function open(name: Setup): Promise<Place> {
  const lab = await createEgressLab({ nodes: ['plain', 'gw-1'], podsPerNode: 2 });
  let agents: EgressAgents | null = null;
  const close = async (): Promise<void> => {
    await agents?.close();
    await lab.close();
  };
  try {
    if (name === 'bare' || name === 'tracked') await bareTunnel(lab, name === 'tracked');
    else agents = await start(lab, name);
    for (const place of [...[...lab.pods.values()].map(({ namespace }) => namespace), lab.server])
      await place.run(['sysctl', '-q', '-w', 'net.ipv4.tcp_max_tw_buckets=0']);
    const on = [...lab.nodes.values()].map(({ namespace }) => namespace);
    const connections: Record<string, Place['connections'][string]> = {};
    for (const [i, pod] of podsOf(name).entries()) {
      const connection = { destination: SERVER.v4, port: RATE_PORT + i };
      const client = lab.pod(pod).namespace;
      connections[pod] = await openConnections({ connection, client, server: lab.server, on });
    }
    return {
      name,
      connections,
      stream: (pod) =>
        iperf3({
          server: lab.server,
          client: lab.pod(pod).namespace,
          destination: SERVER.v4,
          port: STREAM_PORT,
          seconds: 1,
          options: ['--bitrate', LINK],
        }),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function start(lab: EgressLab, name: Exclude<Setup, 'bare' | 'tracked'>): Promise<EgressAgents> {
  const isOn = name === 'one' || name === 'many';
  if (name === 'ruled')
    for (const { namespace } of lab.nodes.values())
      await namespace.run(['ip', 'rule', 'add', 'pref', '71', 'fwmark', '1/0xffffffff', 'lookup', '100']);
  const agents = await egressAgents(lab, {
    featureGates: { EgressGateway: isOn },
    egress: { namespaceLimits: { policies: POLICIES, networks: POLICIES } },
  });
  const last = egressPolicy('last', ['plain-0'], { gateway: 'one', to: [`${SERVER.v4}/32`] });
  const others = Array.from({ length: name === 'many' ? POLICIES - 1 : 0 }, (_, i) =>
    egressPolicy(`a-${i}`, ['plain-0'], { gateway: 'one', to: [`100.64.${i >> 8}.${i & 255}/32`] }),
  );
  await agents.write('egress.json', [gateway('one', ['gw-1']), ...others, last]);
  const inForce = isOn ? /chain egress-guard/ : /chain input/;
  for (const node of lab.nodes.keys()) agents.start(node);
  for (const node of lab.nodes.keys()) await agents.untilInForce(node, inForce);
  if (isOn) await agents.untilInForce('plain', /EgressPolicy default\/last/);
  return agents;
}

/** From plain-0 through gw-1. The pod's node translates nothing. */
async function bareTunnel(lab: EgressLab, isTracked: boolean): Promise<void> {
  const ends = [
    { node: lab.node('plain'), inner: '10.99.0.1', mac: '0e:00:00:00:00:01' },
    { node: lab.node('gw-1'), inner: '10.99.0.2', mac: '0e:00:00:00:00:02' },
  ] as const;
  const pod = lab.pod('plain-0').v4;
  const extra = [
    [`rule add pref 50 from ${pod} lookup 100`, 'route add default via 10.99.0.2 dev tunnel table 100'],
    [`route replace ${pod}/32 via 10.99.0.1 dev tunnel`],
  ];
  for (const [i, { node, inner, mac }] of ends.entries()) {
    const other = ends[1 - i] ?? ends[0];
    const lines = [
      `link add tunnel address ${mac} mtu 1450 type vxlan id 7412 dstport 7790 local ${node.v4} nolearning noudpcsum`,
      'link set tunnel up',
      `addr add ${inner}/24 dev tunnel`,
      `neigh add ${other.inner} lladdr ${other.mac} dev tunnel nud permanent`,
      ...(extra[i] ?? []),
    ];
    await node.namespace.run(['sysctl', '-q', '-w', 'net.ipv4.conf.default.rp_filter=2']);
    await node.namespace.run(['ip', '-batch', '-'], { stdin: `${lines.join('\n')}\n` });
    await node.namespace.run(['bridge', 'fdb', 'add', other.mac, 'dev', 'tunnel', 'dst', other.node.v4]);
  }
  const { namespace } = ends[0].node;
  await namespace.run(['nft', 'delete', 'table', 'inet', 'cni']);
  // The kernel tracks connections where a rule asks for it.
  const tracking = 'table ip tracked {\nchain unused {\nct state new counter\n}\n}\n';
  if (isTracked) await namespace.run(['nft', '-f', '-'], { stdin: tracking });
}
