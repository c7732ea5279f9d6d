/** Namespaces that come and go, as seen by the real namespace controller. */
import assert from 'node:assert/strict';
import type { RealCluster } from '../../build/cluster/cluster.ts';

/** What the namespace controller may take, its own waits between tries included. */
const GONE = ['--wait=true', '--timeout=120s'];

/** One with an object in it. */
export async function makeNamespace(cluster: RealCluster, name: string): Promise<void> {
  await cluster.kubectlOutput(['create', 'namespace', name]);
  await cluster.kubectlOutput(['create', 'configmap', 'content', `--namespace=${name}`]);
}

/** Rejects with its state where it is not gone in time. */
export async function deleteNamespace(cluster: RealCluster, name: string): Promise<void> {
  const { code, stderr } = await cluster.kubectl(['delete', 'namespace', name, ...GONE]);
  if (code === 0) return;
  const { stdout } = await cluster.kubectl(['get', 'namespace', name, '-o', 'yaml']);
  assert.fail(`namespace ${name} is not gone: ${stderr}\n${stdout}`);
}
