/** nodewall as an administrator switches and watches it on a real cluster. */

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { RealCluster } from '../../build/cluster/cluster.ts';
import { AGENT_PODS, PATIENCE, SYSTEM_NAMESPACE } from '../../build/cluster/install.ts';
import type { RealNode } from '../../build/cluster/real-node.ts';
import type { Finished } from '../../build/programs/command.ts';
import { succeeds, until } from '../kernel/until.ts';

export const OF_NODEWALL = 'app.kubernetes.io/part-of=nodewall';
const DEPLOY = join(import.meta.dirname, '../../deploy');
/** The base with short trials of changes. */
export const QUICK_GUARD = join(import.meta.dirname, 'manifests/quick-guard');

interface Pod {
  readonly metadata: { readonly name: string; readonly deletionTimestamp?: string };
  readonly spec: {
    readonly nodeName?: string;
    readonly containers: readonly { readonly image: string }[];
  };
  readonly status: {
    readonly phase?: string;
    readonly podIPs?: readonly { readonly ip: string }[];
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      /** ISO 8601, to the second. */
      readonly lastTransitionTime: string;
    }[];
  };
}

/** Switches the feature gate by the documented manifest. */
export async function setGate(cluster: RealCluster, enabled: boolean): Promise<void> {
  const file = join(DEPLOY, 'gate', enabled ? 'on.yaml' : 'off.yaml');
  await cluster.apply(await readFile(file, 'utf8'));
}

/** Pods of nodewall that are not on their way out. */
export async function pods(cluster: RealCluster, selector: string): Promise<Pod[]> {
  const all = await podsWithTerminating(cluster, selector);
  return all.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
}

export async function podsWithTerminating(cluster: RealCluster, selector: string): Promise<Pod[]> {
  const args = ['pods', `--namespace=${SYSTEM_NAMESPACE}`, `--selector=${selector}`];
  return (await cluster.get<{ items: Pod[] }>(...args)).items;
}

/** One agent runs on each node, ready or not, and no other. */
export async function untilAgentsRun(cluster: RealCluster): Promise<void> {
  await until(
    'an agent runs on each node',
    async () => {
      const agents = await podsWithTerminating(cluster, AGENT_PODS);
      const isRunning = ({ metadata, status }: Pod): boolean =>
        metadata.deletionTimestamp === undefined && status.phase === 'Running';
      return agents.length === cluster.nodes.length && agents.every(isRunning);
    },
    { limit: PATIENCE },
  );
}

/** What nft lists of nodewall's table on a node; empty where there is none. */
export async function tableOf(node: RealNode): Promise<string> {
  const listed = await node.namespace.run(['nft', 'list', 'table', 'inet', 'nodewall'], { anyStatus: true });
  return listed.stdout;
}

/** Until every node's table, or its absence, is as it should be. */
export async function untilTables(
  cluster: RealCluster,
  what: string,
  isRight: (table: string) => boolean,
  limit = PATIENCE,
): Promise<void> {
  let wrong: readonly RealNode[] = [];
  const look = async (nodes: readonly RealNode[]): Promise<boolean> => {
    const tables = await Promise.all(nodes.map(tableOf));
    wrong = nodes.filter((_, i) => !isRight(tables[i] ?? ''));
    return wrong.length === 0;
  };
  await until(
    what,
    // nft takes long to start: while one node is not so, the others need not be looked at.
    async () => (await look(wrong.slice(0, 1))) && (await look(cluster.nodes)),
    { limit, detail: () => `not so on ${wrong.map(({ name }) => name).join(', ')}` },
  );
}

/**
 * Every node has confirmed a policy (docs/guarded-apply.md). One that was taken back, because the
 * cluster's DNS had not come back from an earlier outage, is tried again.
 */
export async function untilConfirmed(cluster: RealCluster, policy: string): Promise<void> {
  const isConfirmed = async (): Promise<boolean> => {
    const { status } = await cluster.get<{ status?: { phase?: string } }>('ncnp', policy);
    const retry = `nodewall.io/retry=${Date.now()}`;
    if (status?.phase === 'RolledBack')
      await cluster.kubectl(['annotate', '--overwrite', 'ncnp', policy, retry]);
    return status?.phase === 'Realized';
  };
  await until(`every node has confirmed ${policy}`, isConfirmed, { limit: PATIENCE });
}

/** How long a marker gets (milliseconds). */
const MARKER = 20_000;

/**
 * That every agent follows the cluster: a policy that is made now reaches every kernel, and leaves
 * it when it is deleted. One that came while another was tried may be taken back with it, and is
 * held for ten minutes where no rule of that node is at fault (docs/guarded-apply.md): then the
 * next marker counts.
 */
export async function untilFollowed(cluster: RealCluster, limit = PATIENCE): Promise<void> {
  let last: unknown;
  const follows = async (): Promise<boolean> => {
    try {
      await followMarker(cluster, Math.min(MARKER, limit));
      return true;
    } catch (error) {
      last = error;
      return false;
    }
  };
  await until('every agent follows', follows, { limit, detail: () => String(last) });
}

async function followMarker(cluster: RealCluster, limit: number): Promise<void> {
  const name = `marker-${performance.now().toFixed(0)}`;
  const manifest = `
apiVersion: nodewall.io/v1alpha1
kind: ClusterNetworkPolicy
metadata: {name: ${name}}
spec:
  priority: 9000
  appliedTo: [{nodeSelector: {}}]
  ingress: [{name: none, action: Allow, from: [{ipBlock: {cidr: 198.51.100.1/32}}], ports: [{protocol: UDP, port: 9}]}]
`;
  // The API server may be starting.
  await until('the API server takes a policy', () => succeeds(cluster.apply(manifest)), { limit });
  try {
    await untilTables(
      cluster,
      'a new policy is enforced on all nodes',
      (table) => table.includes(name),
      limit,
    );
  } finally {
    await cluster.remove('ncnp', name);
  }
  await untilTables(cluster, 'a deleted policy is enforced nowhere', (table) => !table.includes(name), limit);
}

/** What the stories of one cluster share; it is there once `before` has run. */
export interface Bed {
  cluster(): RealCluster;
  /**
   * Runs a script as somebody at a terminal with the cluster's kubectl (bash -euo pipefail). A
   * status other than 0 is no error here.
   */
  shell(script: string): Promise<Finished>;
}

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
