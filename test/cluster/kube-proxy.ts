import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { until } from '../kernel/until.ts';
import type { Namespace } from '../netns/namespace.ts';
import type { TestCluster } from './cluster.ts';
import { type Daemon, daemon } from './daemon.ts';

interface KubeProxyOptions {
  readonly cluster: TestCluster;
  /** The node's; the API server must be reachable from there. */
  readonly namespace: Namespace;
  /** Name of a Node that is in the cluster, with an InternalIP. */
  readonly node: string;
}

const ACCOUNT = 'kube-system/kube-proxy';
const MANIFEST = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: kube-proxy, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: kube-proxy}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:node-proxier}
subjects: [{kind: ServiceAccount, name: kube-proxy, namespace: kube-system}]
`;

/**
 * kube-proxy in nftables mode, with the rights that one has in a cluster. Resolves when its tables
 * are in the kernel, where they stay when it ends, as a real one's do.
 */
export async function startKubeProxy(options: KubeProxyOptions): Promise<Daemon> {
  const { cluster, namespace, node } = options;
  await cluster.apply(MANIFEST);
  const token = await cluster.token(ACCOUNT);
  const kubeconfig = await cluster.kubeconfigFor(`kube-proxy-${node}`, { token });
  const config = join(cluster.folder, `kube-proxy-${node}.yaml`);
  await writeFile(config, stringify(configuration(node, kubeconfig)));
  const proxy = daemon({
    name: `kube-proxy on ${node}`,
    argv: [cluster.program, 'kube-proxy', `--config=${config}`],
    logFile: join(cluster.folder, `kube-proxy-${node}.log`),
    namespace,
  });
  await proxy.start();
  try {
    await until(
      `kube-proxy's tables on ${node}`,
      async () => {
        if (!proxy.isRunning()) throw new Error(`kube-proxy ended\n${await proxy.log()}`);
        const listed = await namespace.run(['nft', 'list', 'table', 'ip', 'kube-proxy'], { anyStatus: true });
        return listed.stdout.includes('chain services');
      },
      { limit: 60_000 },
    );
  } catch (error) {
    await proxy.stop();
    throw new Error(`kube-proxy on ${node}:\n${await proxy.log()}`, { cause: error });
  }
  return proxy;
}

/** kubeproxy.config.k8s.io/v1alpha1. */
function configuration(node: string, kubeconfig: string): object {
  return {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode: 'nftables',
    hostnameOverride: node,
    clientConnection: { kubeconfig },
    clusterCIDR: '10.244.0.0/16',
    // At once: tests wait for it. 0 would be the default, a second.
    nftables: { minSyncPeriod: '1ms' },
    // The machine's own, not this namespace's: left as they are.
    oomScoreAdj: 0,
    conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
  };
}
