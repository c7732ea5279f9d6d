import { type Address, inRange, parseCidr } from './address.ts';
import type { Cluster, ClusterNode } from './cluster.ts';
import type { FailsafeEntry, OracleConfig, Packet } from './flow.ts';
import { type AddressTest, toListTest, toNodesTest } from './member.ts';
import { transportNumber, withinPorts } from './service.ts';

/** Answers whether a packet is traffic on the failsafe list. */
type FailsafeTest = (packet: Packet) => boolean;

/** The API server's port, and those that its endpoints are known to have. */
const apiServer = (peers: FailsafeEntry['peers'], { apiServerPorts }: Cluster): FailsafeEntry[] =>
  [6443, ...apiServerPorts].map((port) => ({ protocol: 'TCP', port, peers }));
const nodePorts: FailsafeEntry[] = [
  { protocol: 'TCP', port: 2379, endPort: 2380, peers: 'nodes' },
  { protocol: 'TCP', port: 10250, peers: 'nodes' },
];
const controllerPorts: FailsafeEntry[] = [
  { protocol: 'TCP', port: 8443, peers: 'controllers' },
  { protocol: 'TCP', port: 9443, peers: 'controllers' },
];
const dns: FailsafeEntry[] = [
  { protocol: 'TCP', port: 53, peers: 'any' },
  { protocol: 'UDP', port: 53, peers: 'any' },
];

/** IP protocols that the platform's entries may name. */
const carriers: Readonly<Record<string, number>> = { ipip: 4, ipv6: 41, gre: 47, esp: 50, ah: 51, vrrp: 112 };

/** The items of the annotation `nodewall.io/platform` that say something, at most 256. */
function toPlatform(text: string): FailsafeEntry[] {
  const items = text.split(',').map((item) => item.trim());
  return items
    .filter((item) => item !== '')
    .slice(0, 256)
    .flatMap((item): FailsafeEntry[] => {
      if (Object.hasOwn(carriers, item)) return [{ protocol: item, peers: 'nodes' }];
      const [protocol = '', ports = '', ...rest] = item.split('/');
      const [port, endPort = port, ...more] = ports.split('-').map(toPort);
      if (!['tcp', 'udp', 'sctp'].includes(protocol) || rest.length + more.length > 0) return [];
      if (port === undefined || endPort === undefined || port < 1 || endPort < port || endPort > 65535)
        return [];
      return [{ protocol, port, endPort, peers: 'nodes' }];
    });
}

function toPort(text: string): number {
  return text !== '' && [...text].every((one) => one >= '0' && one <= '9') ? Number(text) : 0;
}

/**
 * For Host traffic alone. A direction that the configuration gives replaces that direction's list;
 * the other keeps its default. What the Node needs to carry pods is in both.
 */
export function toFailsafeTest(config: OracleConfig, cluster: Cluster, node: ClusterNode): FailsafeTest {
  const platform = config.failsafe?.platform === false ? [] : toPlatform(node.platform);
  const announced = platform.some(({ protocol }) => protocol === 'vrrp')
    ? [{ protocol: 'vrrp', peers: ['224.0.0.18/32', 'ff02::12/128'] }]
    : [];
  const clusterPorts = [...apiServer('nodes', cluster), ...nodePorts];
  const lists = {
    ingress: [
      ...(config.failsafe?.ingress ?? [...clusterPorts, ...apiServer('controllers', cluster)]),
      ...platform,
    ],
    egress: [
      ...(config.failsafe?.egress ?? [...clusterPorts, ...controllerPorts, ...dns]),
      ...platform,
      ...announced,
    ],
  };
  const tests = {
    ingress: lists.ingress.map((entry) => toEntryTest(entry, cluster)),
    egress: lists.egress.map((entry) => toEntryTest(entry, cluster)),
  };
  return (packet) => {
    if (packet.traffic !== 'Host') return false;
    if (tests[packet.direction].some(({ asks }) => asks(packet))) return true;
    const asked = packet.direction === 'ingress' ? tests.egress : tests.ingress;
    return packet.isUntracked && asked.some(({ answers }) => answers(packet));
  };
}

function toEntryTest(
  entry: FailsafeEntry,
  cluster: Cluster,
): { readonly asks: FailsafeTest; readonly answers: FailsafeTest } {
  const protocol = carriers[entry.protocol ?? ''] ?? transportNumber(entry.protocol);
  const peers = toPeersTest(entry.peers, cluster);
  const isNamed = (remote: Address | undefined, port: number | undefined) =>
    withinPorts(entry.port, entry.endPort, port) &&
    (peers === undefined || (remote !== undefined && peers(remote)));
  return {
    asks({ direction, protocol: number, remote, dstPort, original }) {
      if (number !== protocol) return false;
      const before = direction === 'ingress' ? remote : original.dst;
      return isNamed(remote, dstPort) || isNamed(before, original.dstPort);
    },
    answers: ({ protocol: number, remote, srcPort }) => number === protocol && isNamed(remote, srcPort),
  };
}

function toPeersTest(peers: FailsafeEntry['peers'], cluster: Cluster): AddressTest | undefined {
  if (peers === 'any') return undefined;
  if (peers === 'nodes') return toNodesTest(cluster, {});
  if (peers === 'controllers') return toListTest(cluster.controllers.flatMap(({ addresses }) => addresses));
  if (!Array.isArray(peers)) throw new Error('a failsafe entry without peers');
  const ranges = peers.map(parseCidr);
  return (address) => ranges.some((range) => inRange(range, address));
}
