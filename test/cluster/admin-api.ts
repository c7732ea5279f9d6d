import { KubeConfig } from '@kubernetes/client-node';
import { type KubeApiClient, kubeApi } from '../../controller/kubeapi/kube-api.ts';
import type { TestCluster } from './cluster.ts';

/**
 * The controller's own client with the administrator's rights: any request, without a process for
 * it. Only for a cluster on loopback. Its user closes it.
 */
export function adminApi({ kubeconfig }: Pick<TestCluster, 'kubeconfig'>): KubeApiClient {
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  return kubeApi(config);
}
