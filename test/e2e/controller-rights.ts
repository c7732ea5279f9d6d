import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestCluster } from '../cluster/cluster.ts';
import { ROOT } from '../structure/source-file.ts';

type Cluster = Pick<TestCluster, 'get' | 'kubectl' | 'apply'>;

const CLUSTER_ROLE = 'nodewall-controller';

/** Takes a right of their ClusterRole away from the controllers. */
export async function withoutRight(cluster: Cluster, resource: string): Promise<void> {
  const role = await cluster.get<{ rules: { resources?: string[] }[] }>('clusterrole', CLUSTER_ROLE);
  const rules = role.rules.map((rule) => ({
    ...rule,
    ...(rule.resources && { resources: rule.resources.filter((one) => one !== resource) }),
  }));
  const kept = rules.filter(({ resources }) => resources === undefined || resources.length > 0);
  assert.notDeepEqual(kept, role.rules, resource);
  const patch = JSON.stringify({ rules: kept });
  const { code, stderr } = await cluster.kubectl([
    ...['patch', 'clusterrole', CLUSTER_ROLE, '--type=merge', '-p', patch],
  ]);
  assert.equal(code, 0, stderr);
}

/** Puts the rights of this version in place again. */
export async function withAllRights(cluster: Cluster): Promise<void> {
  await cluster.apply(await readFile(join(ROOT, 'deploy/rbac.yaml'), 'utf8'), { force: true });
}
