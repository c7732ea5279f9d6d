/**
 * One node namespace and some client namespaces, each joined to the node by a veth pair of its own.
 *
 * No bridge in between: a packet's client is then also its interface, which interface groups need.
 * Every address is a host route through a gateway with a permanent neighbour entry, so no ARP or
 * neighbour discovery ever runs, a client may have addresses of any network, and IPv6 works from
 * the first packet.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { createNamespace, type Namespace } from './namespace.ts';

export interface Topology {
  readonly node: Namespace;
  readonly clients: readonly Namespace[];
  readonly plan: AddressPlan;
  /** The namespace that owns an address; undefined for multicast and strangers. */
  owner(address: string): Namespace | undefined;
  /** The node's interface towards client i. */
  nodeInterface(client: number): string;
  close(): Promise<void>;
}

/** The one interface a client has. */
export const CLIENT_INTERFACE = 'node';

/**
 * Takes about 0.2 s for two clients. Everything is gone after close(), or when this process dies.
 */
export async function createTopology(plan: AddressPlan = addressPlan()): Promise<Topology> {
  const count = 1 + Math.max(-1, ...plan.clientAddresses.map(({ client }) => client));
  const names = ['node', ...Array.from({ length: count }, (_, i) => `client${i}`)];
  const created = await Promise.allSettled(names.map((name) => createNamespace(name)));
  const all = created.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  const close = async () => void (await Promise.all(all.map((one) => one.close())));
  try {
    for (const one of created) if (one.status === 'rejected') throw one.reason;
    const [node, ...clients] = all;
    if (node === undefined) throw new Error('no node namespace');
    await Promise.all(all.map((one) => setSysctls(one)));
    await node.run(['ip', '-batch', '-'], { stdin: nodeBatch(plan, clients) });
    await Promise.all(
      clients.map((client, i) => client.run(['ip', '-batch', '-'], { stdin: clientBatch(plan, i) })),
    );
    await removeLocalGroups(node, clients.length * plan.multicastGroups.filter(isV6).length);
    const owners = new Map<string, Namespace>();
    for (const { v4, v6 } of plan.nodeAddresses) owners.set(v4, node).set(v6, node);
    for (const { v4, v6, client } of plan.clientAddresses) {
      const owner = clients[client];
      if (owner !== undefined) owners.set(v4, owner).set(v6, owner);
    }
    const nodeInterface = (client: number) => `c${client}`;
    return { node, clients, plan, owner: (address) => owners.get(address), nodeInterface, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Reasons beside each; what isn't per namespace (nf_conntrack_max) is left alone. */
const SYSCTLS: readonly string[] = [
  // IPv6 addresses are usable at once.
  'net.ipv6.conf.all.accept_dad=0',
  'net.ipv6.conf.default.accept_dad=0',
  'net.ipv6.conf.default.dad_transmits=0',
  // Nothing changes the routes: probes may look like router advertisements or redirects.
  'net.ipv6.conf.all.accept_ra=0',
  'net.ipv6.conf.default.accept_ra=0',
  'net.ipv4.conf.all.accept_redirects=0',
  'net.ipv4.conf.default.accept_redirects=0',
  'net.ipv6.conf.all.accept_redirects=0',
  'net.ipv6.conf.default.accept_redirects=0',
  'net.ipv4.conf.all.rp_filter=0',
  'net.ipv4.conf.default.rp_filter=0',
  // Every reject is answered, however many there are.
  'net.ipv4.icmp_ratelimit=0',
  'net.ipv4.icmp_ratemask=0',
  'net.ipv4.icmp_msgs_per_sec=1000000',
  'net.ipv4.icmp_msgs_burst=100000',
  'net.ipv6.icmp.ratelimit=0',
  'net.ipv4.tcp_invalid_ratelimit=0',
  // Many short connections: measurements.md, "A benchmark must …".
  'net.netfilter.nf_conntrack_tcp_timeout_time_wait=1',
  'net.netfilter.nf_conntrack_tcp_timeout_close=1',
  'net.ipv4.ip_local_port_range=1024 65535',
  // Ports that programs of a control plane listen on: no connection may have one of them first.
  'net.ipv4.ip_local_reserved_ports=2379-2380,6443,8080,8443,9001-9099,9443,10250',
  'net.ipv4.tcp_tw_reuse=1',
  'net.ipv4.tcp_tw_reuse_delay=1',
  'net.ipv4.tcp_max_syn_backlog=65536',
  'net.core.somaxconn=65536',
  // The node joins each multicast group on each client's interface.
  'net.ipv4.igmp_max_memberships=1000',
  // A node of a cluster forwards for its pods.
  'net.ipv4.ip_forward=1',
  'net.ipv6.conf.all.forwarding=1',
];

async function setSysctls(namespace: Namespace): Promise<void> {
  // -e: a key that this kernel lacks (tcp_tw_reuse_delay before 6.14) is passed over.
  await namespace.run(['sysctl', '-q', '-e', '-w', ...SYSCTLS]);
}

const NODE_MAC = '02:00:00:00:01:00';
const CLIENT_MAC = '02:00:00:00:02:00';
const GATEWAY_OF_CLIENT = { v4: '169.254.77.1', v6: 'fe80::1' };
const GATEWAY_OF_NODE = { v4: '169.254.77.2', v6: 'fe80::2' };

function nodeBatch(plan: AddressPlan, clients: readonly Namespace[]): string {
  const lines = ['link set lo up'];
  clients.forEach(({ pid }, i) => {
    const group = plan.clientAddresses.find(({ client }) => client === i)?.group ?? 0;
    lines.push(
      `link add c${i} address ${NODE_MAC} type veth peer name ${CLIENT_INTERFACE} address ${CLIENT_MAC} netns ${pid}`,
      `link set c${i} group ${group} up`,
      `neigh replace ${GATEWAY_OF_NODE.v4} lladdr ${CLIENT_MAC} dev c${i} nud permanent`,
      `neigh replace ${GATEWAY_OF_NODE.v6} lladdr ${CLIENT_MAC} dev c${i} nud permanent`,
      // `autojoin` joins the group, and makes the address a local one; the route that says so would
      // send what the node itself sends there round by lo.
      ...plan.multicastGroups.flatMap((address) =>
        isV6(address)
          ? [`addr add ${address}/128 dev c${i} nodad autojoin`]
          : [`addr add ${address}/32 dev c${i} autojoin`, `route del local ${address} dev c${i} table local`],
      ),
    );
  });
  if (clients.length > 0) {
    for (const { v4, v6 } of plan.nodeAddresses) {
      lines.push(`addr add ${v4}/32 dev c0`, `addr add ${v6}/128 dev c0 nodad`);
    }
    lines.push('route add 224.0.0.0/4 dev c0');
  }
  for (const { v4, v6, client } of plan.clientAddresses) {
    lines.push(
      `route add ${v4}/32 via ${GATEWAY_OF_NODE.v4} dev c${client} onlink`,
      `route add ${v6}/128 via ${GATEWAY_OF_NODE.v6} dev c${client} onlink`,
    );
  }
  return `${lines.join('\n')}\n`;
}

const isV6 = (address: string): boolean => address.includes(':');

const MOST_TRIES = 1000;

/** The kernel makes the local routes of IPv6 a moment later, in a work queue. */
async function removeLocalGroups(node: Namespace, count: number): Promise<void> {
  if (count === 0) return;
  const groups = ['table', 'local', 'type', 'local', 'root', 'ff00::/8'];
  for (let tries = 0; ; tries++) {
    const { stdout } = await node.run(['ip', '-6', 'route', 'show', ...groups]);
    if (stdout.split('\n').filter((line) => line !== '').length === count) break;
    if (tries === MOST_TRIES) throw new Error(`the kernel made other local routes of groups: ${stdout}`);
    await pause(10);
  }
  await node.run(['ip', '-6', 'route', 'flush', ...groups]);
}

function clientBatch(plan: AddressPlan, index: number): string {
  const lines = ['link set lo up', `link set ${CLIENT_INTERFACE} up`];
  for (const { v4, v6, client } of plan.clientAddresses) {
    if (client !== index) continue;
    lines.push(
      `addr add ${v4}/32 dev ${CLIENT_INTERFACE}`,
      `addr add ${v6}/128 dev ${CLIENT_INTERFACE} nodad`,
    );
  }
  lines.push(
    `neigh replace ${GATEWAY_OF_CLIENT.v4} lladdr ${NODE_MAC} dev ${CLIENT_INTERFACE} nud permanent`,
    `neigh replace ${GATEWAY_OF_CLIENT.v6} lladdr ${NODE_MAC} dev ${CLIENT_INTERFACE} nud permanent`,
    `route add default via ${GATEWAY_OF_CLIENT.v4} dev ${CLIENT_INTERFACE} onlink`,
    `route add default via ${GATEWAY_OF_CLIENT.v6} dev ${CLIENT_INTERFACE} onlink`,
  );
  return `${lines.join('\n')}\n`;
}

/** Which addresses the namespaces of a topology have. */

/** One host identity in both families. */
export interface AddressPair {
  readonly v4: string;
  readonly v6: string;
}

export interface ClientAddress extends AddressPair {
  /** Index of the client namespace that owns it. */
  readonly client: number;
  /** Link group of the node's interface towards that client; 0 where nobody set one. */
  readonly group: number;
}

export interface AddressPlan {
  readonly nodeAddresses: readonly AddressPair[];
  readonly clientAddresses: readonly ClientAddress[];
  /** Multicast groups that the node has joined: what is sent there passes its input hook. */
  readonly multicastGroups: readonly string[];
}

interface AddressPlanOptions {
  /** Client namespaces; default 2, at most 100. */
  readonly clients?: number;
  /** Default 4. */
  readonly addressesPerClient?: number;
  /** Default 2. */
  readonly nodeAddresses?: number;
  /** Link group of the node's interface to client 0, 1, …; default 0 each. */
  readonly groups?: readonly number[];
  readonly multicastGroups?: readonly string[];
}

/** Node 10.90.0.10 / fd90::10 upwards; client c has 10.(100+c).0.10 / fd90:(100+c)::10 upwards. */
export function addressPlan(options: AddressPlanOptions = {}): AddressPlan {
  const clients = options.clients ?? 2;
  const count = options.addressesPerClient ?? 4;
  const pairs = (net: number, v6: string, n: number) =>
    Array.from({ length: n }, (_, i) => ({
      v4: `10.${net}.${(i + 10) >> 8}.${(i + 10) & 255}`,
      v6: `${v6}::${(i + 16).toString(16)}`,
    }));
  return {
    nodeAddresses: pairs(90, 'fd90', options.nodeAddresses ?? 2),
    clientAddresses: Array.from({ length: clients }, (_, client) =>
      pairs(100 + client, `fd90:${100 + client}`, count).map((pair) => ({
        ...pair,
        client,
        group: options.groups?.[client] ?? 0,
      })),
    ).flat(),
    multicastGroups: options.multicastGroups ?? [],
  };
}
