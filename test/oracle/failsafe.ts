import { type Address, inRange, parseCidr } from './address.ts';
import type { Cluster } from './cluster.ts';
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

/**
 * For Host traffic alone. A direction that the configuration gives replaces that direction's list;
 * the other keeps its default.
 */
export function toFailsafeTest(config: OracleConfig, cluster: Cluster): FailsafeTest {
  const clusterPorts = [...apiServer('nodes', cluster), ...nodePorts];
  const lists = {
    ingress: config.failsafe?.ingress ?? [...clusterPorts, ...apiServer('controllers', cluster)],
    egress: config.failsafe?.egress ?? [...clusterPorts, ...controllerPorts, ...dns],
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
  const protocol = transportNumber(entry.protocol);
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
