import { succeeds, until } from '../kernel/until.ts';
import type { RealCluster } from './cluster.ts';
import { setGate, tableOf, untilConfirmed, untilFollowed, untilTables } from './nodewall.ts';
import { EVENTS, type EventName, POLICIES, type PolicyName } from './outage.ts';

/** What an administrator does while nodewall is not all there. */
export const MEANWHILE = ['nothing', 'policy deleted', 'gate off'] as const;
export type Meanwhile = (typeof MEANWHILE)[number];

export interface Trial {
  readonly policies: readonly PolicyName[];
  readonly event: EventName;
  readonly meanwhile: Meanwhile;
}

export interface TrialResult {
  /** From the last action on, until every agent follows and the gate's state is obeyed. */
  readonly seconds: number;
}

const EXTRA = `
apiVersion: nodewall.io/v1alpha1
kind: ClusterNetworkPolicy
metadata: {name: to-be-deleted}
spec:
  priority: 20
  appliedTo: [{nodeSelector: {}}]
  ingress: [{name: closed, action: Drop, ports: [{protocol: UDP, port: 7001}]}]
`;

export function titleOf({ policies, event, meanwhile }: Trial): string {
  const during = meanwhile === 'nothing' ? '' : `, ${meanwhile} meanwhile`;
  return `${policies.join(' and ')}: ${event}${during}`;
}

/**
 * No policies but those of these names, gate on, no node off, every agent follows: also after a
 * test that failed half-way.
 */
export async function reset(cluster: RealCluster, kept: readonly string[] = []): Promise<void> {
  await Promise.all(cluster.nodes.map((node) => node.run(['rm', '-f', '/var/lib/nodewall/off'])));
  const { items } = await cluster.get<{ items: { metadata: { name: string } }[] }>('ncnp');
  const names = items.map(({ metadata }) => metadata.name);
  await cluster.remove('ncnp', ...names.filter((name) => !kept.includes(name)));
  await setGate(cluster, true);
  await untilFollowed(cluster);
}

/**
 * Policies, then what happens to nodewall, then nothing by hand. Rejects where an agent does not
 * follow within `limit` milliseconds.
 */
export async function runTrial(cluster: RealCluster, trial: Trial, limit: number): Promise<TrialResult> {
  await enforce(cluster, trial.policies);
  return overcome(cluster, trial, limit);
}

/**
 * Applies policies, and another that may be deleted meanwhile, until every node has confirmed them.
 */
export async function enforce(cluster: RealCluster, policies: Trial['policies']): Promise<void> {
  const manifests = await Promise.all(policies.map((name) => POLICIES[name]()));
  await cluster.kubectlOutput(['apply', '--server-side', '-f', '-'], {
    stdin: [...manifests, EXTRA].join('\n---\n'),
  });
  await untilTables(cluster, 'all policies are enforced', (table) => table.includes('to-be-deleted'));
  // Guarded apply must not be what opens the cluster again.
  await untilConfirmed(cluster, 'to-be-deleted');
}

/** What happens to nodewall under the policies of {@link enforce}; limit and rejection as above. */
export async function overcome(
  cluster: RealCluster,
  { event, meanwhile }: Omit<Trial, 'policies'>,
  limit: number,
): Promise<TrialResult> {
  const happening = EVENTS[event](cluster);
  // The administrator's command may have to be repeated while the API server restarts.
  const command = async (run: () => Promise<void>): Promise<void> =>
    void (await until('the API server takes a command', () => succeeds(run()), { limit }));
  if (meanwhile === 'policy deleted')
    await command(
      async () =>
        void (await cluster.kubectlOutput(['delete', 'ncnp', 'to-be-deleted', '--ignore-not-found'])),
    );
  if (meanwhile === 'gate off') await command(() => setGate(cluster, false));
  await happening;

  const started = performance.now();
  if (meanwhile === 'gate off') {
    await untilTables(cluster, 'no rules are left', (table) => table === '', limit);
  } else {
    await untilFollowed(cluster, limit);
    const isKept = meanwhile === 'nothing';
    for (const node of cluster.nodes) {
      const table = await tableOf(node);
      if (table.includes('to-be-deleted') !== isKept)
        throw new Error(`policy to-be-deleted is ${isKept ? 'not ' : ''}enforced on ${node.name}`);
    }
  }
  return { seconds: (performance.now() - started) / 1000 };
}
