import type { KubeApi } from '../controller/kubeapi/kube-api.ts';
import { isKubeError } from '../controller/kubeapi/kube-error.ts';
import { CommandError, EXIT } from '../lib/process/exit.ts';
import { clusterConfig } from './kube-config.ts';

/**
 * Calls `run` with the API server of a kubeconfig; without one, of the file that kubectl would
 * take, or of the pod's service account. A KubeError that `run` throws becomes a CommandError.
 */
export async function withCluster<T>(
  kubeconfig: string | undefined,
  run: (request: KubeApi) => Promise<T>,
): Promise<T> {
  const { kubeApi } = await import('../controller/kubeapi/kube-api.ts');
  const client = kubeApi(await clusterConfig(kubeconfig));
  try {
    return await run(client.request);
  } catch (error) {
    if (!isKubeError(error)) throw error;
    throw new CommandError(EXIT.refused, error.message, { cause: error });
  } finally {
    client.close();
  }
}
