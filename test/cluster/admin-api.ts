import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import { parseAllDocuments, stringify } from 'yaml';
import { type KubeApiClient, kubeApi } from '../../controller/kubeapi/kube-api.ts';
import { ROOT } from '../structure/source-file.ts';
import type { TestCluster } from './cluster.ts';

/**
 * The controller's own client with the rights of a kubeconfig, for instance a cluster's own: any
 * request, without a process for it. Only for a cluster on loopback. Its user closes it.
 */
export function apiAs({ kubeconfig }: Pick<TestCluster, 'kubeconfig'>): KubeApiClient {
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  return kubeApi(config);
}

interface List {
  readonly items: readonly { readonly metadata: { readonly name: string } }[];
}

/** Deletes all objects of these types, which belong to no namespace. */
export async function removeAll(cluster: Pick<TestCluster, 'get' | 'remove'>, ...types: readonly string[]) {
  for (const type of types) {
    const { items } = await cluster.get<List>(type);
    await cluster.remove(type, ...items.map(({ metadata }) => metadata.name));
  }
}

interface WebhookConfiguration {
  readonly webhooks: readonly { clientConfig: { service?: object; url?: string } }[];
}

/**
 * deploy/kustomize/base/webhooks.yaml as it is, but that the webhooks are at this URL and no
 * Service's.
 */
export async function webhooksAt(server: string): Promise<string> {
  const text = await readFile(join(ROOT, 'deploy/kustomize/base/webhooks.yaml'), 'utf8');
  return parseAllDocuments(text)
    .map((document) => {
      const configuration = document.toJS() as WebhookConfiguration;
      for (const { clientConfig } of configuration.webhooks) {
        clientConfig.url = server;
        delete clientConfig.service;
      }
      return stringify(configuration);
    })
    .join('---\n');
}

/**
 * ServiceAccounts of namespace default and their ClusterRoles, as YAML that begins and ends with a
 * line break.
 */
export function usersYaml(rolesOf: Readonly<Record<string, readonly string[]>>): string {
  const documents = Object.entries(rolesOf).flatMap(([user, roles]) => [
    `
apiVersion: v1
kind: ServiceAccount
metadata: {name: ${user}, namespace: default}
`,
    ...roles.map(
      (role) => `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: ${user}-${role}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ${role}}
subjects: [{kind: ServiceAccount, name: ${user}, namespace: default}]
`,
    ),
  ]);
  return documents.join('---');
}
