import { agentLock } from '../agent/run/agent-lock.ts';
import type { GuardAnswer, GuardCommand } from '../agent/run/flush-server.ts';
import type { NodeReport } from '../apis/node-report.ts';
import type { ApiGroup } from '../apis/objects.ts';
import { NODE_VIEWS_PATH } from '../apis/stream.ts';
import { RETRY_ANNOTATION } from '../apis/validate/policy.ts';
import type { KubeApi } from '../controller/kubeapi/kube-api.ts';
import { isKubeError } from '../controller/kubeapi/kube-error.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { AGENT, AGENT_NAMESPACE, hasKubeconfig, itemsAt, lineFor, withCluster } from './cluster-api.ts';
import type { MachineOptions, Printed } from './command-options.ts';
import { loadConfig } from './load.ts';
import { json, print, table } from './output.ts';
import { fieldText } from './record-text.ts';

interface GuardOptions extends MachineOptions, Printed<'text' | 'json'> {
  readonly kubeconfig?: string;
}

/** A node of a cluster that tries rules, and the line for a shell that confirms them there. */
interface TryingNode {
  readonly node: string;
  /** API group/name; sorted. */
  readonly policies: readonly string[];
  readonly command: string;
}

/** A policy that nodes of the cluster hold. */
interface HeldPolicy {
  readonly apiGroup: ApiGroup;
  readonly policy: string;
  /** Sorted. */
  readonly nodes: readonly string[];
}

interface NodeView {
  readonly metadata: { readonly name: string };
  readonly status?: Partial<Pick<NodeReport, 'tried' | 'failing'>>;
}

interface AgentPod {
  readonly metadata: { readonly name: string };
  readonly spec?: { readonly nodeName?: string };
}

const AGENT_PODS = `/api/v1/namespaces/${AGENT_NAMESPACE}/pods?labelSelector=${encodeURIComponent(AGENT)}`;
/** Nodes that are named in the text: of those that try rules, and of a policy that is held. */
const MOST_TRYING = 20;
const MOST_HOLDING = 10;

/**
 * `nodewall confirm`: ends the window of the rules that the agent of this machine tries. Where none
 * runs, and there is a kubeconfig, it confirms nothing, and prints on which nodes of the cluster
 * rules are tried, with the command for each; then the exit status is 1. A confirmation has to come
 * by a new connection to the node: that is what it proves (docs/adr/0037-confirm-on-the-node.md).
 */
export async function confirmCommand(options: GuardOptions): Promise<ExitStatus> {
  const { kubeconfig, output } = options;
  await loadConfig(options.config);
  if (await isAboutHere(options)) {
    const { policies } = await ask(options, { kind: 'confirm' });
    const text =
      policies.length === 0
        ? 'No rules are tried on this node: those in force are confirmed.\n'
        : `Confirmed: ${policies.join(', ')}.\n`;
    await print(output === 'json' ? json({ confirmed: policies }) : text);
    return EXIT.done;
  }
  const nodes = await withCluster(kubeconfig, async (request) =>
    tryingNodes(await itemsAt<NodeView>(request, NODE_VIEWS_PATH), await agentPods(request)),
  );
  await print(output === 'json' ? json(nodes) : tryingText(nodes));
  return nodes.length === 0 ? EXIT.done : EXIT.invalid;
}

/**
 * `nodewall retry`: has the agent of this machine apply policies again that were rolled back. Where
 * none runs, and there is a kubeconfig, gives the policies that nodes of the cluster hold a new
 * annotation, by which all nodes try them again.
 */
export async function retryCommand(policy: string | undefined, options: GuardOptions): Promise<ExitStatus> {
  const { kubeconfig, output } = options;
  await loadConfig(options.config);
  if (await isAboutHere(options)) {
    const { policies } = await ask(options, { kind: 'retry', policy: policy ?? null });
    if (policies.length === 0 && policy !== undefined)
      throw new CommandError(EXIT.invalid, `policy ${policy} is not held on this node`);
    const text =
      policies.length === 0
        ? 'No policy is held on this node.\n'
        : `Applied again, and tried: ${policies.join(', ')}.\n`;
    await print(output === 'json' ? json({ retried: policies }) : text);
    return EXIT.done;
  }
  const time = new Date().toISOString();
  const retried = await withCluster(kubeconfig, (request) => retryInCluster(request, policy, time));
  if (retried.length === 0 && policy !== undefined)
    throw new CommandError(EXIT.invalid, `policy ${policy} is held on no node of the cluster`);
  const keys = retried.map((one) => `${one.apiGroup}/${one.policy}`);
  await print(output === 'json' ? json({ retried: keys }) : retriedText(retried));
  return EXIT.done;
}

/** Whether an agent runs on this machine, or there is no cluster to ask. */
async function isAboutHere({ stateDir, kubeconfig }: GuardOptions): Promise<boolean> {
  return (await agentLock(stateDir).holder()) !== null || !hasKubeconfig(kubeconfig);
}

async function ask({ stateDir }: GuardOptions, guard: GuardCommand): Promise<GuardAnswer> {
  const { askAgent, BROKEN, userName } = await import('./flush.ts');
  const request = { isDryRun: false, by: userName(), node: null, only: null, egressPolicy: null, guard };
  for await (const answer of askAgent(stateDir, request)) {
    if (answer.kind === 'guard') return answer;
    if (answer.kind === 'error') throw new CommandError(EXIT.invalid, answer.message);
  }
  throw new CommandError(EXIT.refused, BROKEN);
}

/** Null: who asks may not read them. */
async function agentPods(request: KubeApi): Promise<readonly AgentPod[] | null> {
  try {
    return await itemsAt<AgentPod>(request, AGENT_PODS);
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

function tryingText(nodes: readonly TryingNode[]): string {
  if (nodes.length === 0) return 'No node of the cluster tries rules: those in force are confirmed.\n';
  const rows = nodes
    .slice(0, MOST_TRYING)
    .map(({ node, policies, command }) => [fieldText(node), policies.map(fieldText).join(', '), command]);
  const left = nodes.length - MOST_TRYING;
  const more = left > 0 ? `${left} more nodes: -o json\n` : '';
  return `${table(['node', 'tried', 'confirm it there, by a new connection'], rows)}${more}
Nothing is confirmed from here: connections that are open already pass before any rule, and prove nothing.
`;
}

/** Returns the policies that got the annotation. */
export async function retryInCluster(
  request: KubeApi,
  policy: string | undefined,
  time: string,
): Promise<readonly HeldPolicy[]> {
  const held = heldPolicies(await itemsAt<NodeView>(request, NODE_VIEWS_PATH)).filter(
    (one) => policy === undefined || one.policy === policy,
  );
  for (const one of held) {
    const body = { metadata: { annotations: { [RETRY_ANNOTATION]: time } } };
    await request({ method: 'PATCH', path: pathOf(one), body });
  }
  return held;
}

function heldPolicies(views: readonly NodeView[]): HeldPolicy[] {
  const held = new Map<string, HeldPolicy>();
  for (const { metadata, status } of views) {
    for (const { apiGroup, policy, rolledBack } of status?.failing ?? []) {
      if (rolledBack !== true) continue;
      const key = `${apiGroup}/${policy}`;
      const nodes = new Set([...(held.get(key)?.nodes ?? []), metadata.name]);
      held.set(key, { apiGroup, policy, nodes: [...nodes].sort() });
    }
  }
  return [...held].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, one]) => one);
}

/** Each API group has its policies in one version. */
const VERSIONS: Readonly<Record<ApiGroup, string>> = {
  'nodewall.io': 'v1alpha1',
  'crd.antrea.io': 'v1beta1',
};

function pathOf({ apiGroup, policy }: HeldPolicy): string {
  return `/apis/${apiGroup}/${VERSIONS[apiGroup]}/clusternetworkpolicies/${encodeURIComponent(policy)}`;
}

function retriedText(retried: readonly HeldPolicy[]): string {
  if (retried.length === 0) return 'No policy is held on a node of the cluster.\n';
  return retried
    .map(({ apiGroup, policy, nodes }) => {
      const left = nodes.length - MOST_HOLDING;
      const names = nodes.slice(0, MOST_HOLDING).map(fieldText).join(', ');
      return `Tried again: ${apiGroup}/${fieldText(policy)}, which was held on ${names}${left > 0 ? ` and ${left} more` : ''}.\n`;
    })
    .join('');
}
