import type { RealCluster } from '../../build/cluster/cluster.ts';
import { succeeds, until } from '../kernel/until.ts';
import { QUICK_GUARD, setGate, untilConfirmed, untilFollowed, untilTables } from './nodewall.ts';
import { EVENTS, type Event, type EventName, NAMED_PORTS, POLICIES, type PolicyName } from './outage.ts';

/** What an administrator does while nodewall is not all there. */
export const MEANWHILE = [
  'nothing',
  'policy deleted',
  'policy edited',
  'gate off',
  'agents restarted',
] as const;
type Meanwhile = (typeof MEANWHILE)[number];

export interface Trial {
  readonly policies: readonly PolicyName[];
  readonly event: EventName;
  readonly meanwhile: Meanwhile;
  /** The base of nodewall that is applied again after accidents; default: QUICK_GUARD. */
  readonly base?: string;
}

interface TrialResult {
  /** From the last action on, until every agent follows and the gate's state is obeyed. */
  readonly seconds: number;
}

/** As an administrator edits it meanwhile. */
const EDITED_PORT = 7002;
const extra = (port: number): string => `
apiVersion: nodewall.io/v1alpha1
kind: ClusterNetworkPolicy
metadata: {name: to-be-deleted}
spec:
  priority: 20
  appliedTo: [{nodeSelector: {}}]
  ingress: [{name: closed, action: Drop, ports: [{protocol: UDP, port: ${port}}]}]
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
  const manifestsOf = async (names: readonly PolicyName[]): Promise<string[]> =>
    Promise.all(names.map((name) => POLICIES[name]()));
  const isTried = (name: PolicyName): boolean => name in NAMED_PORTS;
  const apply = (manifests: readonly string[]) =>
    cluster.kubectlOutput(['apply', '--server-side', '-f', '-'], { stdin: manifests.join('\n---\n') });
  await apply([...(await manifestsOf(policies.filter((name) => !isTried(name)))), extra(7001)]);
  await untilTables(cluster, 'all policies are enforced', (table) => table.includes('to-be-deleted'));
  // Guarded apply must not be what opens the cluster again.
  await untilConfirmed(cluster, 'to-be-deleted');
  const tried = policies.filter(isTried);
  if (tried.length === 0) return;
  await apply(await manifestsOf(tried));
  await untilTables(cluster, 'the named ports are closed', (table) => table.includes('named-ports'));
}

/** What happens to nodewall under the policies of {@link enforce}; limit and rejection as above. */
export async function overcome(
  cluster: RealCluster,
  { event, meanwhile, base = QUICK_GUARD }: Omit<Trial, 'policies'>,
  limit: number,
): Promise<TrialResult> {
  const happen: Event = EVENTS[event];
  const happening = happen(cluster, base);
  // The administrator's command may have to be repeated while the API server restarts.
  const command = async (run: () => Promise<void>): Promise<void> =>
    void (await until('the API server takes a command', () => succeeds(run()), { limit }));
  if (meanwhile === 'policy deleted')
    await command(
      async () =>
        void (await cluster.kubectlOutput(['delete', 'ncnp', 'to-be-deleted', '--ignore-not-found'])),
    );
  if (meanwhile === 'policy edited')
    await command(
      async () =>
        void (await cluster.kubectlOutput(['apply', '--server-side', '-f', '-'], {
          stdin: extra(EDITED_PORT),
        })),
    );
  if (meanwhile === 'gate off') await command(() => setGate(cluster, false));
  if (meanwhile === 'agents restarted') await command(() => EVENTS['all agents restarted'](cluster));
  await happening;

  const started = performance.now();
  if (meanwhile === 'gate off') {
    await untilTables(cluster, 'no rules are left', (table) => table === '', limit);
  } else {
    await untilFollowed(cluster, limit);
    const isKept = meanwhile !== 'policy deleted';
    const isRight = (table: string): boolean => table.includes('to-be-deleted') === isKept;
    await untilTables(cluster, `to-be-deleted is ${isKept ? '' : 'not '}enforced`, isRight, limit);
    const isEdited = (table: string): boolean => table.includes(String(EDITED_PORT));
    if (meanwhile === 'policy edited') await untilTables(cluster, 'the edit is enforced', isEdited, limit);
  }
  return { seconds: (performance.now() - started) / 1000 };
}
