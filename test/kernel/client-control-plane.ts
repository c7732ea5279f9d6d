import type { Family } from '../../lib/net/address.ts';
import { type FakeControlPlane, fakeControlPlane } from '../fake/control-plane.ts';
import { relay } from '../netns/namespace.ts';
import type { EnforcedNode } from './enforced-node.ts';
import { NODE_NAME } from './manifests.ts';

/**
 * A controller that does what the test says, at the node's first client: real HTTPS over its link.
 */
export async function clientControlPlane(
  { topology }: EnforcedNode,
  port: number,
  family: Family = 4,
): Promise<FakeControlPlane> {
  const [client] = topology.clients;
  const [address] = topology.plan.clientAddresses;
  if (client === undefined || address === undefined) throw new Error('the node has no client');
  const host = address[`v${family}`];
  const plane = await fakeControlPlane(NODE_NAME, { host, port });
  await relay(client, { host, port }, { path: plane.socket });
  return plane;
}
