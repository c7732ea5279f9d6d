/**
 * A cluster of two nodes with an aggregated API, a policy that has denied connections on one of them,
 * and users: jane and ann have nodewall-view, ann the controller's rights too, mallory none.
 */
import assert from 'node:assert/strict';
import { NODEWALL } from '../cli/command.ts';
import { tcp } from '../kernel/manifests.ts';
import type { RunResult } from '../netns/namespace.ts';
import { controllerService, untilAggregated } from './controller-service.ts';
import { closed, realized, type Story, startStory } from './story-bed.ts';

/** On which the rule `web/close` has dropped connections. */
export const NODE = 'worker-1';
/** The first replica of story-bed.ts. */
export const PORT = 9001;

const USERS = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: jane, namespace: default}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: mallory, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: jane}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: nodewall-view}
subjects: [{kind: ServiceAccount, name: jane, namespace: default}, {kind: ServiceAccount, name: ann, namespace: default}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: ann, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: ann}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: nodewall-controller}
subjects: [{kind: ServiceAccount, name: ann, namespace: default}]
`;

export type User = 'jane' | 'ann' | 'mallory';

export interface NodeDataBed {
  readonly story: Story;
  readonly kubeconfigs: Readonly<Record<User, string>>;
  nodewall(user: User, ...args: readonly string[]): Promise<RunResult>;
  /** What a command prints as JSON for jane. */
  printed(...args: readonly string[]): ReturnType<typeof JSON.parse>;
}

export async function nodeDataBed(): Promise<NodeDataBed> {
  // No kube-proxy: the API server looks for the endpoints itself.
  const story = await startStory({ replicas: 2, apiServerFlags: ['--enable-aggregator-routing=true'] });
  const { cluster, address } = story;
  await cluster.apply(`${controllerService(address, [PORT])}---${USERS}`);
  const kubeconfigs = { jane: '', ann: '', mallory: '' };
  for (const user of ['jane', 'ann', 'mallory'] as const)
    kubeconfigs[user] = await cluster.kubeconfigFor(user, { token: await cluster.token(`default/${user}`) });
  await untilAggregated(cluster);
  const rule = { name: 'close', action: 'Drop', ports: [tcp(80)], enableLogging: true, logLabel: 'web' };
  await story.applied(closed('web', 80, { ingress: [rule] }));
  await story.statusIs('web', realized(2));
  await story.sees('other0', NODE, 80, 'closed');
  const nodewall = (user: User, ...args: readonly string[]): Promise<RunResult> =>
    story.controlPlane.run([NODEWALL, ...args, '--kubeconfig', kubeconfigs[user]], { anyStatus: true });
  return {
    ...{ story, kubeconfigs, nodewall },
    async printed(...args) {
      const { status, stdout, stderr } = await nodewall('jane', ...args, '-o', 'json');
      assert.equal(status, 0, stderr);
      return JSON.parse(stdout);
    },
  };
}
