import { addressKey, inRange } from './address.ts';
import type { Cluster, ClusterNode } from './cluster.ts';
import type { OracleConfig } from './config.ts';
import { isPodsGroup, loopbackRanges } from './exemption.ts';
import type { Packet } from './flow.ts';

/**
 * Builds the test for packets that a pod sends with the address of a Node, an own or a loopback
 * address.
 */
export function toSpoofTest(
  config: OracleConfig,
  { nodes }: Cluster,
  node: ClusterNode,
): (packet: Packet) => boolean {
  if (config.antiSpoofing === false) return () => false;
  const addresses = [node, ...nodes].flatMap((one) => one.addresses);
  const known = new Set(addresses.map(addressKey));
  return (packet) => {
    const { direction, src } = packet;
    if (direction !== 'ingress' || src === undefined || !isPodsGroup(packet, config)) return false;
    return known.has(addressKey(src)) || loopbackRanges.some((range) => inRange(range, src));
  };
}
