/** What must stay as it was while an installation is replaced. */
import assert from 'node:assert/strict';
import { until } from '../kernel/until.ts';
import type { RealCluster } from './cluster.ts';
import { CLOSED_PORT, observedDuring } from './leaks.ts';
import { NAMESPACE, setGate, untilFollowed, untilReady, untilTables } from './nodewall.ts';

/** Milliseconds. */
const LIMIT = 180_000;

interface Webhooks {
  readonly webhooks: readonly { readonly clientConfig: { readonly caBundle?: string } }[];
}
interface WithData {
  readonly data: Readonly<Record<string, string>>;
}

/** What controllers and administrators wrote, which no installation may change. */
export async function written(cluster: RealCluster): Promise<unknown> {
  const system = `--namespace=${NAMESPACE}`;
  const gate = await cluster.get<WithData>('configmap', 'nodewall-config', system);
  const authority = await cluster.get<WithData>('configmap', 'nodewall-ca', system);
  const bundles = await Promise.all(
    ['mutating', 'validating'].map(async (kind) => {
      const { webhooks } = await cluster.get<Webhooks>(`${kind}webhookconfiguration`, 'nodewall');
      return webhooks.map(({ clientConfig }) => clientConfig.caBundle);
    }),
  );
  return { gate: gate.data, authority: authority.data, bundles };
}

/** Switches the gate on, and closes a port on every node until each has confirmed it. */
export async function untilClosed(cluster: RealCluster): Promise<void> {
  await setGate(cluster, true);
  await cluster.apply(CLOSED_PORT);
  await untilTables(cluster, 'the port is closed', (table) => table.includes('no-7000'));
  await untilConfirmed(cluster);
}

/** Every node has confirmed the policy that closes the port. */
export async function untilConfirmed(cluster: RealCluster): Promise<void> {
  const phase = async (): Promise<string | undefined> =>
    (await cluster.get<{ status?: { phase?: string } }>('ncnp', 'closed-port')).status?.phase;
  await until('every node has confirmed it', async () => (await phase()) === 'Realized', { limit: LIMIT });
}

/**
 * From the action's begin until all agents follow the cluster again, no packet reaches the closed
 * port of any node, and no line of a connection to an open one is lost.
 */
export async function leaksNothing(cluster: RealCluster, action: () => Promise<void>): Promise<void> {
  const observed = await observedDuring(cluster, async () => {
    await action();
    await untilReady(cluster);
    await untilFollowed(cluster);
  });
  for (const { node, flood, stream } of observed) {
    assert.ok(flood.arrived > 100, `${node}: the flood did not arrive: ${JSON.stringify(flood)}`);
    assert.equal(flood.passed, 0, `${node}: ${JSON.stringify(flood)}`);
    assert.equal(stream.problem, null, `${node}: ${JSON.stringify(stream)}`);
  }
  const packets = observed.reduce((sum, { flood }) => sum + flood.arrived, 0);
  process.stdout.write(`      0 of ${packets} packets passed\n`);
}
