import { join } from 'node:path';
import type { Namespace } from '../netns/namespace.ts';
import type { TestCluster } from './cluster.ts';
import { type Daemon, daemon } from './daemon.ts';

interface ControllerManagerOptions {
  readonly cluster: TestCluster;
  /** Where the API server is reachable. */
  readonly namespace: Namespace;
  /** Names as its flag --controllers takes them: what is not needed costs time. */
  readonly controllers: readonly string[];
}

/**
 * kube-controller-manager with the administrator's rights: deletes what is in namespaces that are
 * deleted, and what lost its owner.
 */
export async function startControllerManager(options: ControllerManagerOptions): Promise<Daemon> {
  const { cluster, namespace, controllers } = options;
  const flags = {
    kubeconfig: cluster.kubeconfig,
    'authentication-kubeconfig': cluster.kubeconfig,
    'authorization-kubeconfig': cluster.kubeconfig,
    'bind-address': '127.0.0.1',
    'cert-dir': join(cluster.folder, 'certificates'),
    'leader-elect': 'false',
    controllers: controllers.join(),
  };
  const program = daemon({
    name: 'kube-controller-manager',
    argv: [
      cluster.program,
      'kube-controller-manager',
      ...Object.entries(flags).map(([name, value]) => `--${name}=${value}`),
    ],
    logFile: join(cluster.folder, 'kube-controller-manager.log'),
    namespace,
  });
  await program.start();
  return program;
}
