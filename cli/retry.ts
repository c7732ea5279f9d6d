import { agentLock } from '../agent/run/agent-lock.ts';
import type { NodeReport } from '../apis/node-report.ts';
import type { ApiGroup } from '../apis/objects.ts';
import { NODE_VIEWS_PATH } from '../apis/stream.ts';
import { RETRY_ANNOTATION } from '../apis/validate/policy.ts';
import type { KubeApi } from '../controller/kubeapi/kube-api.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { withCluster } from './cluster-api.ts';
import { hasKubeconfig } from './kube-config.ts';
import { loadConfig } from './load.ts';
import { json, print } from './output.ts';
import { fieldText } from './record-text.ts';

interface RetryOptions {
  readonly stateDir: string;
  readonly config?: string;
  readonly kubeconfig?: string;
  readonly output: 'text' | 'json';
}

/** A policy that nodes of the cluster hold. */
export interface HeldPolicy {
  readonly apiGroup: ApiGroup;
  readonly policy: string;
  /** Sorted. */
  readonly nodes: readonly string[];
}

interface NodeViews {
  readonly items?: readonly {
    readonly metadata: { readonly name: string };
    readonly status?: Pick<NodeReport, 'failing'>;
  }[];
}

/** Nodes of a policy that are named in the text. */
const MOST_NODES = 10;

/**
 * `nodewall retry`: asks the agent of this machine. Where none runs, and there is a kubeconfig,
 * gives the policies that nodes of the cluster hold a new annotation, by which all nodes try them
 * again.
 */
export async function retryCommand(policy: string | undefined, options: RetryOptions): Promise<ExitStatus> {
  const { stateDir, kubeconfig, output } = options;
  const isHere = (await agentLock(stateDir).holder()) !== null;
  if (isHere || !hasKubeconfig(kubeconfig)) return await (await import('./guard.ts')).retry(policy, options);
  await loadConfig(options.config);
  const time = new Date().toISOString();
  const retried = await withCluster(kubeconfig, (request) => retryInCluster(request, policy, time));
  if (retried.length === 0 && policy !== undefined)
    throw new CommandError(EXIT.invalid, `policy ${policy} is held on no node of the cluster`);
  const keys = retried.map((one) => `${one.apiGroup}/${one.policy}`);
  await print(output === 'json' ? json({ retried: keys }) : toText(retried));
  return EXIT.done;
}

/** Returns the policies that got the annotation. */
export async function retryInCluster(
  request: KubeApi,
  policy: string | undefined,
  time: string,
): Promise<readonly HeldPolicy[]> {
  const { items = [] } = await request<NodeViews>({ method: 'GET', path: NODE_VIEWS_PATH });
  const held = heldPolicies(items).filter((one) => policy === undefined || one.policy === policy);
  for (const one of held) {
    const body = { metadata: { annotations: { [RETRY_ANNOTATION]: time } } };
    await request({ method: 'PATCH', path: pathOf(one), body });
  }
  return held;
}

function heldPolicies(views: NonNullable<NodeViews['items']>): HeldPolicy[] {
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

function toText(retried: readonly HeldPolicy[]): string {
  if (retried.length === 0) return 'No policy is held on a node of the cluster.\n';
  return retried
    .map(({ apiGroup, policy, nodes }) => {
      const left = nodes.length - MOST_NODES;
      const names = nodes.slice(0, MOST_NODES).map(fieldText).join(', ');
      return `Tried again: ${apiGroup}/${fieldText(policy)}, which was held on ${names}${left > 0 ? ` and ${left} more` : ''}.\n`;
    })
    .join('');
}
