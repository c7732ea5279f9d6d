import assert from 'node:assert/strict';
import type { RealCluster } from '../../build/cluster/cluster.ts';
import { type FloodCount, passedDuring } from '../kernel/flood-tool.ts';
import { type StreamCount, startStream } from './stream.ts';

/** UDP and TCP; CLOSED is what the flood is sent to. */
export const PORTS = { closed: 7000, open: 7100 } as const;

/** Closes one port on every node, and says nothing of others. */
export const CLOSED_PORT = `
apiVersion: nodewall.io/v1alpha1
kind: ClusterNetworkPolicy
metadata: {name: closed-port}
spec:
  priority: 5
  appliedTo: [{nodeSelector: {}}]
  ingress: [{name: no-7000, action: Drop, ports: [{protocol: UDP, port: ${PORTS.closed}}, {protocol: TCP, port: ${PORTS.closed}}]}]
`;

interface Observed {
  readonly node: string;
  readonly flood: FloodCount;
  readonly stream: StreamCount;
}

/** Packets a second for each node: enough to hit a gap of a millisecond, and no load of its own. */
const RATE = 2_000;

/**
 * While the action runs, every node is flooded from outside at the closed port, IPv4 and IPv6 by
 * turns of nodes, each packet a new connection; and a connection from outside to an open port of
 * each lives all along.
 */
async function observedDuring(
  { nodes, outside }: RealCluster,
  action: () => Promise<void>,
): Promise<Observed[]> {
  const acted = Promise.withResolvers<void>();
  const begun = nodes.map(() => Promise.withResolvers<void>());
  const running = nodes.map(async (node, i): Promise<Observed> => {
    const [address, family] = i % 2 === 0 ? ([node.v4, 4] as const) : ([node.v6, 6] as const);
    const server = { namespace: node.namespace, address, port: PORTS.open };
    const stream = await startStream(outside.namespace, server);
    const flooded = {
      node: node.namespace,
      clients: [outside.namespace],
      plan: {
        nodeAddresses: [{ v4: node.v4, v6: node.v6 }],
        clientAddresses: [{ v4: outside.v4, v6: outside.v6, client: 0, group: 0 }],
        multicastGroups: [],
      },
    };
    const target = { protocol: 'udp', port: PORTS.closed, family, rate: RATE } as const;
    const [flood] = await passedDuring(flooded, [target], async () => {
      begun[i]?.resolve();
      await acted.promise;
    });
    if (flood === undefined) throw new Error('no flood');
    return { node: node.name, flood, stream: await stream.end() };
  });
  const all = Promise.all(running);
  await Promise.race([Promise.all(begun.map(({ promise }) => promise)), all]);
  try {
    await action();
  } finally {
    acted.resolve();
  }
  return all;
}

/**
 * While the action runs, no packet reaches the closed port of any node, and no line of a connection
 * to an open one is lost.
 */
export async function leaksNothing(cluster: RealCluster, action: () => Promise<void>): Promise<void> {
  const observed = await observedDuring(cluster, action);
  for (const { node, flood, stream } of observed) {
    // A restart of kubelet takes a second or two, and so does its flood.
    assert.ok(flood.arrived > 100, `${node}: the flood did not arrive: ${JSON.stringify(flood)}`);
    assert.equal(flood.passed, 0, `${node}: ${JSON.stringify(flood)}`);
    assert.equal(stream.problem, null, `${node}: ${JSON.stringify(stream)}`);
  }
  const packets = observed.reduce((sum, { flood }) => sum + flood.arrived, 0);
  process.stdout.write(`      0 of ${packets} packets passed\n`);
}
