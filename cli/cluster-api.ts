import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import type { KubeConfig } from '@kubernetes/client-node';
import type { KubeApi } from '../controller/kubeapi/kube-api.ts';
import { isKubeError } from '../controller/kubeapi/kube-error.ts';
import { CommandError, EXIT } from '../lib/process/exit.ts';
import { openKubeConfig } from './cluster-objects.ts';

/**
 * Calls `run` with the API server of a kubeconfig; without one, of the file that kubectl would take,
 * or of the pod's service account. A KubeError that `run` throws becomes a CommandError.
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

/** The kubeconfig of `--kubeconfig`; without one, what `withCluster` takes. */
export async function clusterConfig(kubeconfig: string | undefined): Promise<KubeConfig> {
  return await openKubeConfig(kubeconfig ?? usualFile());
}

/** Whether there is a kubeconfig; in a pod without one, commands are about the pod's machine. */
export function hasKubeconfig(kubeconfig: string | undefined): boolean {
  return (kubeconfig ?? usualFile()) !== undefined;
}

/** The kubeconfig that kubectl would take; undefined: there is none. */
export function usualFile(): string | undefined {
  const named = (process.env.KUBECONFIG ?? '').split(delimiter).filter((file) => file !== '');
  return named.find((file) => existsSync(file)) ?? ofUser();
}

function ofUser(): string | undefined {
  let home: string;
  try {
    home = homedir();
  } catch {
    // Neither $HOME nor an entry in /etc/passwd.
    return undefined;
  }
  const file = join(home, '.kube', 'config');
  return existsSync(file) ? file : undefined;
}
