/** What a real API server needs of nodewall before a controller or an agent is started. */
import { globSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestCluster } from '../cluster/cluster.ts';
import { ROOT } from '../structure/source-file.ts';

/** Applies the CRDs and rights of a release, by its folder. */
export async function install(
  cluster: Pick<TestCluster, 'apply' | 'established'>,
  release = ROOT,
): Promise<void> {
  for (const path of [...globSync('deploy/crds/*.yaml', { cwd: release }), 'deploy/rbac.yaml'])
    await cluster.apply(await readFile(join(release, path), 'utf8'));
  await cluster.established();
}

/** The path of a kubeconfig with the rights of controllers. */
export async function controllerKubeconfig(cluster: TestCluster): Promise<string> {
  const token = await cluster.token('nodewall-system/nodewall-controller');
  return await cluster.kubeconfigFor('controller', { token });
}

/** A token of a node's agent, for controllers. */
export function agentToken(cluster: Pick<TestCluster, 'token'>, node: string): Promise<string> {
  const bound = { boundNode: node, audiences: ['nodewall-controller'] };
  return cluster.token('nodewall-system/nodewall-agent', bound);
}

/** The certificate of the controllers' CA (PEM), which a controller has written. */
export async function controllerCa(cluster: Pick<TestCluster, 'get'>): Promise<string> {
  const { data } = await cluster.get<{ data: Record<string, string> }>(
    'configmap',
    'nodewall-ca',
    '--namespace=nodewall-system',
  );
  return data['ca.crt'] ?? '';
}
