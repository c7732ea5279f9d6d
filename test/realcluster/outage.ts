/**
 * What can lock a cluster: policies, what happens to nodewall under them, and what an administrator
 * does meanwhile.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RealCluster } from '../../build/cluster/cluster.ts';
import { AGENT_PODS, CONTROLLERS, SYSTEM_NAMESPACE } from '../../build/cluster/install.ts';
import type { RealNode } from '../../build/cluster/real-node.ts';
import { succeeds, until } from '../kernel/until.ts';
import { pods } from './nodewall.ts';

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

/** Rules that name ports: the failsafe list does not count for them. */
const named = (
  action: 'Drop' | 'Reject',
  directions: readonly string[],
  ports = '[{protocol: TCP, port: 1, endPort: 65535}, {protocol: UDP, port: 1, endPort: 65535}]',
): string => {
  const rules = directions.map(
    (one) => `  ${one}: [{name: ${one}-ports, action: ${action}, ports: ${ports}}]`,
  );
  return `
apiVersion: nodewall.io/v1alpha1
kind: ClusterNetworkPolicy
metadata: {name: named-ports}
spec:
  tier: platform
  priority: 10
  appliedTo: [{nodeSelector: {}}]
${rules.join('\n')}
`;
};

/** The API server's. */
const API = '[{protocol: TCP, port: 6443}]';

/** By the ports that they name; an agent tries them. */
export const NAMED_PORTS = {
  'all ports of ingress, Drop': async () => named('Drop', ['ingress']),
  'all ports of ingress, Reject': async () => named('Reject', ['ingress']),
  'all ports of egress, Drop': async () => named('Drop', ['egress']),
  'all ports of egress, Reject': async () => named('Reject', ['egress']),
  'all ports both ways, Drop': async () => named('Drop', ['ingress', 'egress']),
  'all ports both ways, Reject': async () => named('Reject', ['ingress', 'egress']),
  'port 6443 of ingress, Drop': async () => named('Drop', ['ingress'], API),
  'port 6443 of ingress, Reject': async () => named('Reject', ['ingress'], API),
  'port 6443 of egress, Drop': async () => named('Drop', ['egress'], API),
  'port 6443 of egress, Reject': async () => named('Reject', ['egress'], API),
} as const;

/**
 * Manifests, by what they are. No policy here allows pods the API server but the flagship's own
 * rule.
 */
export const POLICIES = {
  ...NAMED_PORTS,
  flagship: () => readFile(FLAGSHIP, 'utf8'),
  ingress: async () => blanket('blanket-ingress', 'ingress'),
  egress: async () => blanket('blanket-egress', 'egress'),
  both: async () => `${blanket('blanket-ingress', 'ingress')}---${blanket('blanket-egress', 'egress')}`,
} as const;

export type PolicyName = keyof typeof POLICIES;

const OF_NODEWALL = `--namespace=${SYSTEM_NAMESPACE}`;

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
async function appliedAgain(cluster: RealCluster, base: string): Promise<void> {
  await cluster.kubectlOutput(['apply', '--server-side', '--force-conflicts', '-k', base]);
}

interface PolicyManifests {
  readonly items: readonly { readonly metadata: { readonly name: string }; readonly spec: object }[];
}

/** The policies that the cluster has, as somebody keeps them in files. */
async function policiesOf(cluster: RealCluster): Promise<string> {
  const { items } = await cluster.get<PolicyManifests>('ncnp');
  const documents = items.map(({ metadata: { name }, spec }) => {
    const head = { apiVersion: 'nodewall.io/v1alpha1', kind: 'ClusterNetworkPolicy', metadata: { name } };
    return JSON.stringify({ ...head, spec });
  });
  return documents.join('\n---\n');
}

/** A program of the control plane is killed, and started again after a while. */
async function away(cluster: RealCluster, program: 'apiserver' | 'etcd'): Promise<void> {
  await cluster.controlPlane[program].stop('SIGKILL');
  await sleep(10_000);
  await cluster.startControlPlane();
}

/** `base`: of nodewall, which is applied again. */
export type Event = (cluster: RealCluster, base: string) => Promise<void>;

/** Objects that administrators delete by mistake, and apply again. */
const ACCIDENTS = {
  'namespace deleted': async (cluster: RealCluster, base: string) => {
    await cluster.kubectlOutput(['delete', 'namespace', SYSTEM_NAMESPACE, '--timeout=150s']);
    await appliedAgain(cluster, base);
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
  'ServiceAccounts deleted': async (cluster: RealCluster, base: string) => {
    await cluster.kubectlOutput(['delete', 'serviceaccounts', OF_NODEWALL, '--all']);
    await appliedAgain(cluster, base);
    // The way out that logs, /readyz and `nodewall check` name.
    const workloads = ['deployment/nodewall-controller', 'daemonset/nodewall-agent'];
    await cluster.kubectlOutput(['rollout', 'restart', OF_NODEWALL, ...workloads]);
  },
  'CustomResourceDefinitions deleted': async (cluster: RealCluster, base: string) => {
    const kept = await policiesOf(cluster);
    const own = ['crd', '--selector=app.kubernetes.io/part-of=nodewall', '--timeout=150s'];
    await cluster.kubectlOutput(['delete', ...own]);
    await appliedAgain(cluster, base);
    // The API server takes objects a moment after their definition.
    const applied = () => succeeds(cluster.apply(kept));
    if (kept !== '') await until('policies are applied again', applied, { limit: 60_000 });
  },
  'ConfigMap of the gate deleted': async (cluster: RealCluster) => {
    await cluster.kubectlOutput(['delete', OF_NODEWALL, 'configmap/nodewall-config']);
  },
  'Lease deleted': async (cluster: RealCluster) => {
    await cluster.kubectlOutput(['delete', OF_NODEWALL, 'lease/nodewall-controller']);
  },
  'APIService deleted': async (cluster: RealCluster) => {
    await cluster.kubectlOutput(['delete', 'apiservice/v1alpha1.controlplane.nodewall.io']);
  },
  'webhook configurations deleted': async (cluster: RealCluster, base: string) => {
    const both = 'validatingwebhookconfiguration,mutatingwebhookconfiguration';
    await cluster.kubectlOutput(['delete', both, 'nodewall']);
    await appliedAgain(cluster, base);
  },
  'caBundles emptied': async (cluster: RealCluster) => {
    for (const kind of ['validatingwebhookconfiguration', 'mutatingwebhookconfiguration']) {
      const { webhooks } = await cluster.get<{ webhooks: readonly object[] }>(kind, 'nodewall');
      const emptied = webhooks.map((_, i) => {
        return { op: 'add', path: `/webhooks/${i}/clientConfig/caBundle`, value: '' };
      });
      await cluster.kubectlOutput(['patch', kind, 'nodewall', '--type=json', '-p', JSON.stringify(emptied)]);
    }
  },
  'Secret and ConfigMap of the CA deleted': async (cluster: RealCluster) => {
    await cluster.kubectlOutput(['delete', OF_NODEWALL, 'secret/nodewall-ca', 'configmap/nodewall-ca']);
    await cluster.kubectlOutput(['rollout', 'restart', OF_NODEWALL, 'deployment/nodewall-controller']);
  },
  'roles deleted': async (cluster: RealCluster, base: string) => {
    const own = '--selector=app.kubernetes.io/part-of=nodewall';
    await cluster.kubectlOutput(['delete', 'clusterroles,clusterrolebindings', own]);
    await cluster.kubectlOutput(['delete', 'roles,rolebindings', OF_NODEWALL, own]);
    await appliedAgain(cluster, base);
  },
} as const satisfies Readonly<Record<string, Event>>;

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
  'controllers scaled to none, and back': async (cluster: RealCluster) => {
    const scale = (count: number) => [
      'scale',
      OF_NODEWALL,
      'deployment/nodewall-controller',
      `--replicas=${count}`,
    ];
    await cluster.kubectlOutput(scale(0));
    await sleep(10_000);
    await cluster.kubectlOutput(scale(2));
  },
  'API server killed': (cluster: RealCluster) => away(cluster, 'apiserver'),
  'etcd killed': (cluster: RealCluster) => away(cluster, 'etcd'),
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
    await cluster.kubectlOutput(['delete', 'pods', OF_NODEWALL, `--selector=${AGENT_PODS}`, '--wait=false']);
  },
  'all agents killed': async (cluster: RealCluster) => {
    const force = ['--grace-period=0', '--force'];
    await cluster.kubectlOutput(['delete', 'pods', OF_NODEWALL, `--selector=${AGENT_PODS}`, ...force]);
  },
  'all agents killed, all kubelets restarted': async (cluster: RealCluster) => {
    const force = ['--grace-period=0', '--force'];
    await cluster.kubectlOutput(['delete', 'pods', OF_NODEWALL, `--selector=${AGENT_PODS}`, ...force]);
    await Promise.all(cluster.nodes.map((node) => node.daemons.kubelet.stop('SIGKILL')));
    await Promise.all(cluster.nodes.map((node) => node.startDaemons()));
  },
  'all nodes restarted': async (cluster: RealCluster) => {
    await restartNodes(cluster, cluster.nodes);
  },
} as const satisfies Readonly<Record<string, Event>>;

export type EventName = keyof typeof EVENTS;
