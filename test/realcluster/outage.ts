/**
 * What can lock a cluster: policies, what happens to nodewall under them, and what an administrator
 * does meanwhile.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { RealCluster, RealNode } from './cluster.ts';
import { AGENTS, CONTROLLERS, NAMESPACE, pods, QUICK_GUARD } from './nodewall.ts';

const FLAGSHIP = join(import.meta.dirname, '../../deploy/examples/flagship/protect-api.yaml');

const blanket = (name: string, direction: 'ingress' | 'egress'): string => `
apiVersion: nodewall.io/v1alpha1
kind: ClusterNetworkPolicy
metadata: {name: ${name}}
spec:
  tier: platform
  priority: 10
  appliedTo: [{nodeSelector: {}}]
  ${direction}: [{name: drop-all, action: Drop}]
`;

/**
 * Manifests, by what they are. No policy here allows pods the API server but the flagship's own
 * rule.
 */
export const POLICIES = {
  flagship: () => readFile(FLAGSHIP, 'utf8'),
  ingress: async () => blanket('blanket-ingress', 'ingress'),
  egress: async () => blanket('blanket-egress', 'egress'),
  both: async () => `${blanket('blanket-ingress', 'ingress')}---${blanket('blanket-egress', 'egress')}`,
} as const;

export type PolicyName = keyof typeof POLICIES;

const OF_NODEWALL = `--namespace=${NAMESPACE}`;

async function controllerNodes(cluster: RealCluster): Promise<RealNode[]> {
  const names = new Set((await pods(cluster, CONTROLLERS)).map(({ spec }) => spec.nodeName));
  return cluster.nodes.filter(({ name }) => names.has(name));
}

async function restartNodes(cluster: RealCluster, nodes: readonly RealNode[]): Promise<void> {
  await Promise.all(nodes.map((node) => node.powerOff()));
  await Promise.all(nodes.map((node) => node.powerOn()));
  if (nodes.some(({ name }) => name === 'cp-1')) await cluster.startControlPlane();
}

/** Applies nodewall again, as who deleted some of it by mistake does. */
async function appliedAgain(cluster: RealCluster): Promise<void> {
  await cluster.kubectlOutput(['apply', '--server-side', '--force-conflicts', '-k', QUICK_GUARD]);
}

/** Objects that administrators delete by mistake, and apply again. */
const ACCIDENTS = {
  'namespace deleted': async (cluster: RealCluster) => {
    await cluster.kubectlOutput(['delete', 'namespace', NAMESPACE, '--timeout=150s']);
    await appliedAgain(cluster);
  },
  'gate and Lease deleted, controllers killed': async (cluster: RealCluster) => {
    await cluster.kubectlOutput([
      'delete',
      OF_NODEWALL,
      'configmap/nodewall-config',
      'lease/nodewall-controller',
    ]);
    const force = ['--grace-period=0', '--force'];
    await cluster.kubectlOutput(['delete', 'pods', OF_NODEWALL, `--selector=${CONTROLLERS}`, ...force]);
  },
  'ServiceAccounts deleted': async (cluster: RealCluster) => {
    await cluster.kubectlOutput(['delete', 'serviceaccounts', OF_NODEWALL, '--all']);
    await appliedAgain(cluster);
    // The way out that logs, /readyz and `nodewall check` name.
    const workloads = ['deployment/nodewall-controller', 'daemonset/nodewall-agent'];
    await cluster.kubectlOutput(['rollout', 'restart', OF_NODEWALL, ...workloads]);
  },
  'Secret and ConfigMap of the CA deleted': async (cluster: RealCluster) => {
    await cluster.kubectlOutput(['delete', OF_NODEWALL, 'secret/nodewall-ca', 'configmap/nodewall-ca']);
    await cluster.kubectlOutput(['rollout', 'restart', OF_NODEWALL, 'deployment/nodewall-controller']);
  },
  'roles deleted': async (cluster: RealCluster) => {
    const own = '--selector=app.kubernetes.io/part-of=nodewall';
    await cluster.kubectlOutput(['delete', 'clusterroles,clusterrolebindings', own]);
    await cluster.kubectlOutput(['delete', 'roles,rolebindings', OF_NODEWALL, own]);
    await appliedAgain(cluster);
  },
} as const;

/** What happens; each resolves after its last action, not when the cluster has got over it. */
export const EVENTS = {
  ...ACCIDENTS,
  'all controllers deleted': async (cluster: RealCluster) => {
    await cluster.kubectlOutput(['delete', 'pods', OF_NODEWALL, `--selector=${CONTROLLERS}`, '--wait=false']);
  },
  'all controllers killed': async (cluster: RealCluster) => {
    const force = ['--grace-period=0', '--force'];
    await cluster.kubectlOutput(['delete', 'pods', OF_NODEWALL, `--selector=${CONTROLLERS}`, ...force]);
  },
  'controllers rolled out': async (cluster: RealCluster) => {
    await cluster.kubectlOutput(['rollout', 'restart', OF_NODEWALL, 'deployment/nodewall-controller']);
  },
  'their nodes drained': async (cluster: RealCluster) => {
    for (const { name } of await controllerNodes(cluster)) {
      await cluster.kubectlOutput(['drain', name, '--ignore-daemonsets', '--force', '--timeout=120s']);
      await cluster.kubectlOutput(['uncordon', name]);
    }
  },
  'their nodes lost and back': async (cluster: RealCluster) => {
    await restartNodes(cluster, await controllerNodes(cluster));
  },
  'all agents restarted': async (cluster: RealCluster) => {
    await cluster.kubectlOutput(['delete', 'pods', OF_NODEWALL, `--selector=${AGENTS}`, '--wait=false']);
  },
  'all nodes restarted': async (cluster: RealCluster) => {
    await restartNodes(cluster, cluster.nodes);
  },
} as const;

export type EventName = keyof typeof EVENTS;
