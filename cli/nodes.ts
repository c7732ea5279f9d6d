import { NODE_VIEWS_PATH } from '../apis/stream.ts';
import type { KubeApi } from '../controller/kubeapi/kube-api.ts';
import { errorText } from './output.ts';

/** Nodes that are asked at the same time. */
const AT_ONCE = 32;

/** The nodes of a cluster. */
export async function nodeNames(request: KubeApi): Promise<string[]> {
  const list = await request<{
    readonly items?: readonly { readonly metadata: { readonly name: string } }[];
  }>({
    ...{ method: 'GET', path: NODE_VIEWS_PATH },
  });
  return (list.items ?? []).map(({ metadata: { name } }) => name);
}

/**
 * The answers of those that answer, by node. The others are named on standard error.
 *
 * @param failed absent: says it
 */
export async function askEach<T>(
  nodes: readonly string[],
  ask: (node: string) => Promise<T>,
  failed: (node: string, message: string) => void = sayFailed,
): Promise<Map<string, T>> {
  const waiting = [...nodes];
  const answers = new Map<string, T>();
  const worker = async (): Promise<void> => {
    for (let node = waiting.shift(); node !== undefined; node = waiting.shift()) {
      try {
        answers.set(node, await ask(node));
      } catch (error) {
        failed(node, (error as Error).message);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return answers;
}

export function sayFailed(node: string, message: string): void {
  process.stderr.write(errorText(`${node}: ${message}`));
}
