import { type NodeData, nodeDataPath, QUESTION_PATIENCE } from '../../apis/node-question.ts';
import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { atOnce } from '../../lib/process/lane.ts';
import type { KubeApi } from './kube-api.ts';

/** Nodes that are asked at the same time. */
const AT_ONCE = 32;
/** … for their whole inventories, of which each takes up to 30 MB until it has been looked at. */
export const INVENTORIES_AT_ONCE = 8;

/** The Nodes of a cluster. Throws KubeError. */
export async function nodeNames(request: KubeApi): Promise<string[]> {
  const { items = [] } = await request<{
    readonly items?: readonly { readonly metadata: { readonly name: string } }[];
  }>({ method: 'GET', path: NODE_VIEWS_PATH });
  return items.map(({ metadata: { name } }) => name);
}

/** Asks the agent of a Node. Throws KubeError, also if it does not answer in time. */
export function askNode<T>(
  request: KubeApi,
  node: string,
  about: NodeData,
  query = new URLSearchParams(),
): Promise<T> {
  const path = nodeDataPath(node, about);
  const timeout = QUESTION_PATIENCE.agent + 2 * QUESTION_PATIENCE.onTheWay;
  return request<T>({ method: 'GET', path, query: Object.fromEntries(query), timeout });
}

/**
 * The answers of those that answer, by Node, in the order of `nodes`.
 *
 * @param failed takes the others
 * @param most nodes that are asked at the same time
 */
export async function askEach<T>(
  nodes: Iterable<string>,
  ask: (node: string) => Promise<T>,
  failed: (node: string, message: string) => void,
  most = AT_ONCE,
): Promise<Map<string, T>> {
  const asked = [...nodes];
  const answers = new Map<string, T>();
  await atOnce(asked, most, async (node) => {
    try {
      answers.set(node, await ask(node));
    } catch (error) {
      failed(node, (error as Error).message);
    }
  });
  return new Map(asked.flatMap((node) => (answers.has(node) ? [[node, answers.get(node) as T]] : [])));
}
