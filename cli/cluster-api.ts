import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import type { KubeConfig } from '@kubernetes/client-node';
import type { Config } from '../apis/config.ts';
import type { ClusterObjects } from '../apis/objects.ts';
import type { KubeApi } from '../controller/kubeapi/kube-api.ts';
import { isKubeError } from '../controller/kubeapi/kube-error.ts';
import type { Snapshot } from '../controller/watch/source.ts';
import { CommandError, EXIT } from '../lib/process/exit.ts';
import { fieldText } from './record-text.ts';

/**
 * Calls `run` with the API server of a kubeconfig; without one, of the file that kubectl would
 * take, or of the pod's service account. Where the aggregated API is off, a controller's pod
 * answers for it. A KubeError that `run` throws becomes a CommandError.
 */
export async function withCluster<T>(
  kubeconfig: string | undefined,
  run: (request: KubeApi) => Promise<T>,
): Promise<T> {
  const { kubeApi } = await import('../controller/kubeapi/kube-api.ts');
  const { RelayedApi } = await import('./relayed-api.ts');
  const client = kubeApi(await clusterConfig(kubeconfig));
  const relayed = new RelayedApi(client.request, kubeconfig ?? usualFile());
  try {
    return await run(relayed.request);
  } catch (error) {
    if (!isKubeError(error)) throw error;
    throw new CommandError(EXIT.refused, error.message, { cause: error });
  } finally {
    relayed.close();
    client.close();
  }
}

/** Objects of one kind, all in one answer. Throws KubeError. */
export async function itemsAt<T>(request: KubeApi, path: string): Promise<readonly T[]> {
  return (await request<{ readonly items?: readonly T[] }>({ method: 'GET', path })).items ?? [];
}

/** That of a file; undefined: of the pod's service account. */
export async function openKubeConfig(file: string | undefined): Promise<KubeConfig> {
  const { loadKubeConfig } = await import('../controller/kubeapi/kube-config.ts');
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

/** The objects in force in a cluster: see clusterSnapshot. */
export async function clusterObjects(
  file: string | undefined,
  config: Config,
  egress = true,
): Promise<ClusterObjects> {
  return (await clusterSnapshot(file, config, egress)).objects;
}

/**
 * A cluster as its controller reads it. Throws a CommandError if a resource cannot be listed.
 *
 * @param egress whether egress gateways are read
 */
export async function clusterSnapshot(
  file: string | undefined,
  config: Config,
  egress = true,
): Promise<Snapshot> {
  const kubeConfig = await clusterConfig(file);
  const { ClusterSource } = await import('../controller/watch/cluster/cluster-source.ts');
  const { validateOptions } = await import('../apis/validate/object.ts');
  const first = Promise.withResolvers<Snapshot>();
  const source = new ClusterSource({
    kubeConfig,
    ...validateOptions(config),
    egress,
    quiet: 0,
    onNotice(notice) {
      if (notice.event !== 'failed') return;
      first.reject(new CommandError(EXIT.refused, `cannot read ${notice.resource}: ${notice.error}`));
    },
  });
  try {
    await source.start(first.resolve);
    return await first.promise;
  } finally {
    await source.close();
  }
}

/** The namespace of agents, and the label of their pods. */
export const AGENT_NAMESPACE = 'nodewall-system';
export const AGENT = 'app.kubernetes.io/name=nodewall-agent';

/**
 * The line for a shell that runs a command of nodewall on a node of the cluster.
 *
 * @param pod the agent's; absent: the line looks for it
 */
export function lineFor(node: string, command: string, pod?: string): string {
  const found = `"$(kubectl -n ${AGENT_NAMESPACE} get pod -l ${AGENT} --field-selector spec.nodeName=${fieldText(node)} -o name)"`;
  return `kubectl -n ${AGENT_NAMESPACE} exec ${pod === undefined ? found : fieldText(pod)} -- ${command}`;
}

/** The line for a shell by which a policy records what it would decide, and enforces nothing. */
export function recordOnly(policy: string): string {
  return `kubectl patch clusternetworkpolicy ${policy} --type merge -p '{"spec":{"mode":"Audit"}}'`;
}
