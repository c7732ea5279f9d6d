/** What must stay as it was while an installation is replaced. */
import type { RealCluster } from '../../build/cluster/cluster.ts';
import { SYSTEM_NAMESPACE, untilReady } from '../../build/cluster/install.ts';
import { CLOSED_PORT, leaksNothing } from './leaks.ts';
import { setGate, untilConfirmed, untilFollowed, untilTables } from './nodewall.ts';

interface Webhooks {
  readonly webhooks: readonly { readonly clientConfig: { readonly caBundle?: string } }[];
}
interface WithData {
  readonly data: Readonly<Record<string, string>>;
}

/** What controllers and administrators wrote, which no installation may change. */
export async function written(cluster: RealCluster): Promise<unknown> {
  const system = `--namespace=${SYSTEM_NAMESPACE}`;
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
  await untilConfirmed(cluster, 'closed-port');
}

/** From the action's begin until all agents follow the cluster again. */
export async function leaksNothingUntilFollowed(
  cluster: RealCluster,
  action: () => Promise<void>,
): Promise<void> {
  await leaksNothing(cluster, async () => {
    await action();
    await untilReady(cluster);
    await untilFollowed(cluster);
  });
}
