import type { NodeData } from '../apis/node-question.ts';
import { nodeDataPath, QUESTION_PATIENCE } from '../apis/node-question.ts';
import type { KubeApi } from '../controller/kubeapi/kube-api.ts';
import { withCluster } from './cluster-api.ts';

/** Options of commands that read what a node knows. */
export interface OfNode {
  /** Absent: the machine of the command. */
  readonly node?: string;
  readonly kubeconfig?: string;
}

/** What a node of a cluster knows if one is named, else `here`. */
export async function fromNode<T>(
  { node, kubeconfig }: OfNode,
  about: NodeData,
  query: URLSearchParams,
  here: () => Promise<T>,
): Promise<T> {
  if (node === undefined) return await here();
  return await withCluster(kubeconfig, (request) => askNode<T>(request, node, about, query));
}

export function askNode<T>(
  request: KubeApi,
  node: string,
  about: NodeData,
  query: URLSearchParams,
): Promise<T> {
  const path = nodeDataPath(node, about);
  const timeout = QUESTION_PATIENCE.agent + 2 * QUESTION_PATIENCE.onTheWay;
  return request<T>({ method: 'GET', path, query: Object.fromEntries(query), timeout });
}
