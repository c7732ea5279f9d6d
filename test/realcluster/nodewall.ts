/** nodewall as an administrator installs and watches it on a real cluster. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { succeeds, until } from '../kernel/until.ts';
import type { RealCluster, RealNode } from './cluster.ts';

export const NAMESPACE = 'nodewall-system';
export const OF_NODEWALL = 'app.kubernetes.io/part-of=nodewall';
export const AGENTS = 'app.kubernetes.io/name=nodewall-agent';
export const CONTROLLERS = 'app.kubernetes.io/name=nodewall-controller';
const DEPLOY = join(import.meta.dirname, '../../deploy');
export const BASE = join(DEPLOY, 'kustomize/base');
/** The base with short trials of changes. */
export const QUICK_GUARD = join(import.meta.dirname, 'manifests/quick-guard');

/** So long the machine may take for what takes seconds when nothing else runs (milliseconds). */
const PATIENCE = 180_000;

export interface Pod {
  readonly metadata: { readonly name: string; readonly deletionTimestamp?: string };
  readonly spec: {
    readonly nodeName?: string;
    readonly containers: readonly { readonly image: string }[];
  };
  readonly status: {
    readonly phase?: string;
    readonly podIPs?: readonly { readonly ip: string }[];
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      /** ISO 8601, to the second. */
      readonly lastTransitionTime: string;
    }[];
  };
}

/**
 * Either base by docs/cluster.md; resolves when controllers and agents are ready. The gate is off
 * then.
 */
export async function install(cluster: RealCluster, base = BASE): Promise<void> {
  await cluster.kubectlOutput(['apply', '--server-side', '-k', base]);
  await untilReady(cluster);
}

/** Both workloads, as `kubectl rollout status` sees them. */
export async function untilReady(cluster: RealCluster): Promise<void> {
  for (const workload of ['deployment/nodewall-controller', 'daemonset/nodewall-agent']) {
    const args = ['rollout', 'status', workload, `--namespace=${NAMESPACE}`, `--timeout=${PATIENCE / 1000}s`];
    const { code, stderr } = await cluster.kubectl(args);
    if (code !== 0) throw new Error(`${workload}: ${stderr}\n${await describe(cluster)}`);
  }
}

/** Switches the feature gate by the documented manifest. */
export async function setGate(cluster: RealCluster, enabled: boolean): Promise<void> {
  const file = join(DEPLOY, 'gate', enabled ? 'on.yaml' : 'off.yaml');
  await cluster.apply(await readFile(file, 'utf8'));
}

/** Pods of nodewall that are not on their way out. */
export async function pods(cluster: RealCluster, selector: string): Promise<Pod[]> {
  const all = await podsWithTerminating(cluster, selector);
  return all.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
}

export async function podsWithTerminating(cluster: RealCluster, selector: string): Promise<Pod[]> {
  const args = ['pods', `--namespace=${NAMESPACE}`, `--selector=${selector}`];
  return (await cluster.get<{ items: Pod[] }>(...args)).items;
}

/** One agent runs on each node, ready or not, and no other. */
export async function untilAgentsRun(cluster: RealCluster): Promise<void> {
  await until(
    'an agent runs on each node',
    async () => {
      const agents = await podsWithTerminating(cluster, AGENTS);
      const isRunning = ({ metadata, status }: Pod): boolean =>
        metadata.deletionTimestamp === undefined && status.phase === 'Running';
      return agents.length === cluster.nodes.length && agents.every(isRunning);
    },
    { limit: PATIENCE },
  );
}

/** What nft lists of nodewall's table on a node; empty where there is none. */
export async function tableOf(node: RealNode): Promise<string> {
  const listed = await node.namespace.run(['nft', 'list', 'table', 'inet', 'nodewall'], { anyStatus: true });
  return listed.stdout;
}

/** Until every node's table, or its absence, is as it should be. */
export async function untilTables(
  cluster: RealCluster,
  what: string,
  isRight: (table: string) => boolean,
  limit = PATIENCE,
): Promise<void> {
  let wrong: readonly RealNode[] = [];
  const look = async (nodes: readonly RealNode[]): Promise<boolean> => {
    const tables = await Promise.all(nodes.map(tableOf));
    wrong = nodes.filter((_, i) => !isRight(tables[i] ?? ''));
    return wrong.length === 0;
  };
  await until(
    what,
    // nft takes long to start: while one node is not so, the others need not be looked at.
    async () => (await look(wrong.slice(0, 1))) && (await look(cluster.nodes)),
    { limit, detail: () => `not so on ${wrong.map(({ name }) => name).join(', ')}` },
  );
}

/** Every node has confirmed a policy (docs/guarded-apply.md). */
export async function untilConfirmed(cluster: RealCluster, policy: string): Promise<void> {
  const phase = async (): Promise<string | undefined> =>
    (await cluster.get<{ status?: { phase?: string } }>('ncnp', policy)).status?.phase;
  await until(`every node has confirmed ${policy}`, async () => (await phase()) === 'Realized', {
    limit: PATIENCE,
  });
}

/**
 * That every agent follows the cluster: a policy that is made now reaches every kernel, and leaves
 * it when it is deleted.
 */
export async function untilFollowed(cluster: RealCluster, limit?: number): Promise<void> {
  const name = `marker-${performance.now().toFixed(0)}`;
  const manifest = `
apiVersion: nodewall.io/v1alpha1
kind: ClusterNetworkPolicy
metadata: {name: ${name}}
spec:
  priority: 9000
  appliedTo: [{nodeSelector: {}}]
  ingress: [{name: none, action: Allow, from: [{ipBlock: {cidr: 198.51.100.1/32}}], ports: [{protocol: UDP, port: 9}]}]
`;
  // The API server may be starting.
  await until('the API server takes a policy', () => succeeds(cluster.apply(manifest)), {
    limit: limit ?? PATIENCE,
  });
  await untilTables(cluster, 'a new policy is enforced on all nodes', (table) => table.includes(name), limit);
  await cluster.remove('ncnp', name);
  await untilTables(cluster, 'a deleted policy is enforced nowhere', (table) => !table.includes(name), limit);
}

/** What a person would look at first where something does not come about. */
export async function describe(cluster: RealCluster): Promise<string> {
  const commands = [
    ['get', 'pods', '--all-namespaces', '--output=wide'],
    ['get', 'ncnp'],
    ['logs', `--namespace=${NAMESPACE}`, `--selector=${CONTROLLERS}`, '--tail=15', '--prefix'],
    ['logs', `--namespace=${NAMESPACE}`, `--selector=${AGENTS}`, '--tail=8', '--prefix'],
    ['get', 'events', `--namespace=${NAMESPACE}`, '--field-selector=type=Warning'],
  ];
  const texts = await Promise.all(
    commands.map(async (args) => {
      const { stdout, stderr } = await cluster.kubectl(args);
      return `--- kubectl ${args.join(' ')}\n${stdout}${stderr}`;
    }),
  );
  return texts.join('\n');
}
