import { inRange, parseCidr } from './address.ts';
import type { Cluster } from './cluster.ts';
import type { FailsafeEntry, OracleConfig } from './config.ts';
import type { Packet } from './flow.ts';
import type { AddressTest } from './member.ts';
import { toNodesTest } from './member.ts';
import { transportNumber, withinPorts } from './service.ts';

/** Answers whether a packet is traffic on the failsafe list. */
export type FailsafeTest = (packet: Packet) => boolean;

const clusterPorts: FailsafeEntry[] = [
  { protocol: 'TCP', port: 6443, peers: 'nodes' },
  { protocol: 'TCP', port: 2379, endPort: 2380, peers: 'nodes' },
  { protocol: 'TCP', port: 10250, peers: 'nodes' },
];
const dns: FailsafeEntry[] = [
  { protocol: 'TCP', port: 53, peers: 'any' },
  { protocol: 'UDP', port: 53, peers: 'any' },
];

/** For Host traffic alone. A direction that the configuration gives replaces that direction's list; the other keeps its default. */
export function toFailsafeTest(config: OracleConfig, cluster: Cluster): FailsafeTest {
  const lists = {
    ingress: config.failsafe?.ingress ?? clusterPorts,
    egress: config.failsafe?.egress ?? [...clusterPorts, ...dns],
  };
  const ingress = lists.ingress.map((entry) => toEntryTest(entry, cluster));
  const egress = lists.egress.map((entry) => toEntryTest(entry, cluster));
  return (packet) =>
    packet.traffic === 'Host' &&
    (packet.direction === 'ingress' ? ingress : egress).some((test) => test(packet));
}

function toEntryTest(entry: FailsafeEntry, cluster: Cluster): FailsafeTest {
  const protocol = transportNumber(entry.protocol);
  const peers = toPeersTest(entry.peers, cluster);
  return (packet) =>
    packet.protocol === protocol &&
    withinPorts(entry.port, entry.endPort, packet.dstPort) &&
    (peers === undefined || (packet.remote !== undefined && peers(packet.remote)));
}

function toPeersTest(peers: FailsafeEntry['peers'], cluster: Cluster): AddressTest | undefined {
  if (peers === 'any') return undefined;
  if (peers === 'nodes') return toNodesTest(cluster, {});
  if (!Array.isArray(peers)) throw new Error('a failsafe entry without peers');
  const ranges = peers.map(parseCidr);
  return (address) => ranges.some((range) => inRange(range, address));
}
