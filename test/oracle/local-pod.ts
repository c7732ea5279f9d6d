import { addressKey } from './address.ts';
import type { Cluster, ClusterNode } from './cluster.ts';
import type { Packet } from './flow.ts';

/**
 * Builds the test for outgoing packets that don't say their interface, and go to a pod of this
 * Node: they leave by an interface of pods.
 */
export function toLocalPodTest({ pods }: Cluster, { name }: ClusterNode): (packet: Packet) => boolean {
  const local = pods.filter(({ node }) => node === name).flatMap(({ addresses }) => addresses);
  const known = new Set(local.map(addressKey));
  return ({ direction, interfaceGroup, dst }) =>
    direction === 'egress' && interfaceGroup === undefined && dst !== undefined && known.has(addressKey(dst));
}
