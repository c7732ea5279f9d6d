import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import type { KubeConfig } from '@kubernetes/client-node';
import { CommandError, EXIT } from '../lib/process/exit.ts';

/** That of a file; undefined: of the pod's service account. */
export async function openKubeConfig(file: string | undefined): Promise<KubeConfig> {
  const { loadKubeConfig } = await import('../controller/kubeapi/load-kubeconfig.ts');
  try {
    return await loadKubeConfig(file);
  } catch (error) {
    const status = file === undefined ? EXIT.usage : EXIT.invalid;
    throw new CommandError(status, (error as Error).message, { cause: error });
  }
}

/** That of `--kubeconfig`; without it of the file that kubectl would take, else of the pod. */
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
