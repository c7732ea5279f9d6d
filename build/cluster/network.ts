import { createNamespace, type Namespace } from '../../test/netns/namespace.ts';

/** A machine of the cluster's network, in a network namespace of its own. */
export interface ClusterHost {
  readonly name: string;
  readonly v4: string;
  readonly v6: string;
  readonly namespace: Namespace;
}

export interface NodeAddresses {
  readonly name: string;
  readonly v4: string;
  readonly v6: string;
  /** The network of its pods. */
  readonly podCidrs: readonly [v4: string, v6: string];
}

export interface ClusterNetwork {
  readonly nodes: readonly (ClusterHost & NodeAddresses)[];
  /** 10.0.0.5: a machine of an administrator, behind the router. */
  readonly office: ClusterHost;
  /** 203.0.113.5: anybody else, behind the router. */
  readonly outside: ClusterHost;
  /** Ends what runs in these namespaces, and removes them. */
  close(): Promise<void>;
}

/** cp-1 is the control plane. */
export const NODES: readonly NodeAddresses[] = ['cp-1', 'worker-1', 'worker-2'].map((name, i) => {
  const host = i === 0 ? 11 : 20 + i;
  return {
    name,
    v4: `192.168.10.${host}`,
    v6: `fd00:10::${host}`,
    podCidrs: [`10.244.${i + 1}.0/24`, `fd00:10:244:${i + 1}::/64`],
  };
});

const [controlPlane, , last] = NODES;
if (controlPlane === undefined || last === undefined) throw new Error('no nodes');
/** The node of the API server, and of CoreDNS. */
export const CONTROL_NODE = controlPlane;

/**
 * External addresses of Services. The router sends them to the last node, as if that had told it
 * so.
 */
export const SERVICE_ADDRESSES: readonly [v4: string, v6: string] = ['198.18.0.0/24', 'fd00:18::/64'];
const SERVICE_NODE = last;

const ROUTER = { v4: '192.168.10.1', v6: 'fd00:10::1' };
const OFFICE = { v4: '10.0.0.5', v6: 'fd00:20::5', gateway: { v4: '10.0.0.1', v6: 'fd00:20::1' } };
const OUTSIDE = {
  v4: '203.0.113.5',
  v6: '2001:db8::5',
  gateway: { v4: '203.0.113.1', v6: '2001:db8::1' },
};

const SYSCTLS = [
  'net.ipv4.ip_forward=1',
  'net.ipv6.conf.all.forwarding=1',
  // IPv6 addresses are usable at once, and nothing but this file makes routes.
  'net.ipv6.conf.all.accept_dad=0',
  'net.ipv6.conf.default.accept_dad=0',
  'net.ipv6.conf.all.accept_ra=0',
  'net.ipv6.conf.default.accept_ra=0',
];

/**
 * Packets between pods on one bridge pass netfilter, as installers set it on nodes: without that
 * the answer of a Service's pod to another pod of its node comes from an address that was not
 * asked.
 */
const BRIDGED = ['net.bridge.bridge-nf-call-iptables', 'net.bridge.bridge-nf-call-ip6tables'];

/**
 * Nodes on one bridge, whose namespace is also the router to two machines elsewhere; on demand with
 * the routes to pods on each of them. Takes 0.3 s; gone after close() or with this process.
 */
export async function createNetwork({ hasPodRoutes }: { hasPodRoutes: boolean }): Promise<ClusterNetwork> {
  const names = ['lan', ...NODES.map(({ name }) => name), 'office', 'outside'];
  const created = await Promise.all(names.map((name) => createNamespace(name)));
  const close = async () => void (await Promise.all(created.map((one) => one.close())));
  const [lan, ...others] = created;
  const office = others.at(-2);
  const outside = others.at(-1);
  if (lan === undefined || office === undefined || outside === undefined) throw new Error('no namespaces');
  const nodes = NODES.map((node, i) => ({ ...node, namespace: others[i] as Namespace }));
  try {
    const set = (one: Namespace, bridged: 0 | 1) =>
      one.run(['sysctl', '-q', '-e', '-w', ...SYSCTLS, ...BRIDGED.map((name) => `${name}=${bridged}`)]);
    await Promise.all([set(lan, 0), ...nodes.map(({ namespace }) => set(namespace, 1))]);
    await Promise.all([office, outside].map((one) => set(one, 0)));
    await lan.run(['ip', '-batch', '-'], { stdin: lanBatch(nodes, office, outside) });
    const routes = (from: string | null): string[] =>
      NODES.flatMap(({ name, v4, v6, podCidrs }) => (name === from ? [] : routesTo({ v4, v6 }, podCidrs)));
    if (hasPodRoutes) await lan.run(['ip', '-batch', '-'], { stdin: batch(routes(null)) });
    await Promise.all([
      ...nodes.map(({ name, v4, v6, namespace }) =>
        namespace.run(['ip', '-batch', '-'], {
          stdin: batch([...attached({ v4, v6 }, ROUTER), ...(hasPodRoutes ? routes(name) : [])]),
        }),
      ),
      office.run(['ip', '-batch', '-'], { stdin: hostBatch(OFFICE) }),
      outside.run(['ip', '-batch', '-'], { stdin: hostBatch(OUTSIDE) }),
    ]);
  } catch (error) {
    await close();
    throw error;
  }
  return {
    nodes,
    office: { name: 'office', v4: OFFICE.v4, v6: OFFICE.v6, namespace: office },
    outside: { name: 'outside', v4: OUTSIDE.v4, v6: OUTSIDE.v6, namespace: outside },
    close,
  };
}

function lanBatch(nodes: readonly ClusterHost[], office: Namespace, outside: Namespace): string {
  const lines = [
    'link set lo up',
    'link add br0 type bridge',
    `addr add ${ROUTER.v4}/24 dev br0`,
    `addr add ${ROUTER.v6}/64 dev br0 nodad`,
    'link set br0 up',
  ];
  for (const { name, namespace } of nodes) {
    lines.push(
      `link add ${name} type veth peer name eth0 netns ${namespace.pid}`,
      `link set ${name} master br0 up`,
    );
  }
  for (const [name, { pid }, { gateway }] of [
    ['office', office, OFFICE],
    ['outside', outside, OUTSIDE],
  ] as const) {
    lines.push(
      `link add ${name} type veth peer name eth0 netns ${pid}`,
      `addr add ${gateway.v4}/24 dev ${name}`,
      `addr add ${gateway.v6}/64 dev ${name} nodad`,
      `link set ${name} up`,
    );
  }
  return batch([...lines, ...routesTo(SERVICE_NODE, SERVICE_ADDRESSES)]);
}

const batch = (lines: readonly string[]): string => `${lines.join('\n')}\n`;

function hostBatch(host: typeof OFFICE): string {
  return batch(attached(host, host.gateway));
}

function attached({ v4, v6 }: { v4: string; v6: string }, gateway: { v4: string; v6: string }): string[] {
  return [
    'link set lo up',
    `addr add ${v4}/24 dev eth0`,
    `addr add ${v6}/64 dev eth0 nodad`,
    'link set eth0 up',
    `route add default via ${gateway.v4}`,
    `route add default via ${gateway.v6}`,
  ];
}

function routesTo({ v4, v6 }: { v4: string; v6: string }, podCidrs: readonly [string, string]): string[] {
  return [`route add ${podCidrs[0]} via ${v4}`, `route add ${podCidrs[1]} via ${v6}`];
}
