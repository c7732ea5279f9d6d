import type { NodeData } from '../apis/node-question.ts';
import { askNode } from '../controller/kubeapi/ask-nodes.ts';
import { printable } from '../lib/sharing/printable.ts';
import { withCluster } from './cluster-api.ts';
import { errorText } from './output.ts';

/** Options of commands that read what a node knows. */
export interface OfNode {
  /** Absent: the machine of the command. */
  readonly node?: string;
  readonly kubeconfig?: string;
}

/** The answer of a node of a cluster if one is named, else `here`. */
export async function fromNode<T>(
  { node, kubeconfig }: OfNode,
  about: NodeData,
  query: URLSearchParams,
  here: () => Promise<T>,
): Promise<T> {
  if (node === undefined) return await here();
  return await withCluster(kubeconfig, (request) => askNode<T>(request, node, about, query));
}

/** Names a node that does not answer; the others are shown. */
export function sayFailed(node: string, message: string): void {
  process.stderr.write(errorText(`${node}: ${printable(message)}`));
}
