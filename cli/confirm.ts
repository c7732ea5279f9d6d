import { agentLock } from '../agent/run/agent-lock.ts';
import type { NodeReport } from '../apis/node-report.ts';
import { NODE_VIEWS_PATH } from '../apis/stream.ts';
import type { KubeApi } from '../controller/kubeapi/kube-api.ts';
import { isKubeError } from '../controller/kubeapi/kube-error.ts';
import { EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { withCluster } from './cluster-api.ts';
import { hasKubeconfig } from './kube-config.ts';
import { loadConfig } from './load.ts';
import { AGENT, AGENT_NAMESPACE, lineFor } from './node-line.ts';
import { json, print, table } from './output.ts';
import { fieldText } from './record-text.ts';

interface ConfirmOptions {
  readonly stateDir: string;
  readonly config?: string;
  readonly kubeconfig?: string;
  readonly output: 'text' | 'json';
}

/** A node of a cluster that tries rules, and the line for a shell that confirms them there. */
export interface TryingNode {
  readonly node: string;
  /** API group/name; sorted. */
  readonly policies: readonly string[];
  readonly command: string;
}

interface NodeView {
  readonly metadata: { readonly name: string };
  readonly status?: Pick<NodeReport, 'tried'>;
}

interface AgentPod {
  readonly metadata: { readonly name: string };
  readonly spec?: { readonly nodeName?: string };
}

interface List<T> {
  readonly items?: readonly T[];
}

const AGENT_PODS = `/api/v1/namespaces/${AGENT_NAMESPACE}/pods?labelSelector=${encodeURIComponent(AGENT)}`;
/** Nodes that are named in the text. */
const MOST_NODES = 20;

/**
 * `nodewall confirm`: of the agent of this machine. Where none runs, and there is a kubeconfig, it
 * confirms nothing, and prints on which nodes of the cluster rules are tried, with the command for
 * each; then the exit status is 1. A confirmation has to come by a new connection to the node: that
 * is what it proves (docs/adr/0037-confirm-on-the-node.md).
 */
export async function confirmCommand(options: ConfirmOptions): Promise<ExitStatus> {
  const { stateDir, kubeconfig, output } = options;
  const isHere = (await agentLock(stateDir).holder()) !== null;
  if (isHere || !hasKubeconfig(kubeconfig)) return await (await import('./guard.ts')).confirm(options);
  await loadConfig(options.config);
  const nodes = await withCluster(kubeconfig, async (request) => {
    const { items = [] } = await request<List<NodeView>>({ method: 'GET', path: NODE_VIEWS_PATH });
    return tryingNodes(items, await agentPods(request));
  });
  await print(output === 'json' ? json(nodes) : toText(nodes));
  return nodes.length === 0 ? EXIT.done : EXIT.invalid;
}

/** Null: who asks may not read them. */
async function agentPods(request: KubeApi): Promise<readonly AgentPod[] | null> {
  try {
    return (await request<List<AgentPod>>({ method: 'GET', path: AGENT_PODS })).items ?? [];
  } catch (error) {
    if (isKubeError(error, 'Forbidden', 'NotFound')) return null;
    throw error;
  }
}

/**
 * Those that report rules which are not confirmed yet, by name.
 *
 * @param pods the agents'; null: not known, so that the command looks for the pod
 */
export function tryingNodes(views: readonly NodeView[], pods: readonly AgentPod[] | null): TryingNode[] {
  const podOf = new Map(pods?.map(({ metadata: { name }, spec }) => [spec?.nodeName, name]));
  return views
    .flatMap(({ metadata: { name: node }, status }): TryingNode[] => {
      const policies = (status?.tried ?? []).map(({ apiGroup, policy }) => `${apiGroup}/${policy}`).sort();
      if (policies.length === 0) return [];
      return [{ node, policies, command: lineFor(node, 'nodewall confirm', podOf.get(node)) }];
    })
    .sort((a, b) => (a.node < b.node ? -1 : 1));
}

function toText(nodes: readonly TryingNode[]): string {
  if (nodes.length === 0) return 'No node of the cluster tries rules: those in force are confirmed.\n';
  const rows = nodes
    .slice(0, MOST_NODES)
    .map(({ node, policies, command }) => [fieldText(node), policies.map(fieldText).join(', '), command]);
  const left = nodes.length - MOST_NODES;
  const more = left > 0 ? `${left} more nodes: -o json\n` : '';
  return `${table(['node', 'tried', 'confirm it there, by a new connection'], rows)}${more}
Nothing is confirmed from here: connections that are open already pass before any rule, and prove nothing.
`;
}
