import type { GuardrailStatus } from '../apis/guardrail.ts';
import { nodePhase } from '../apis/node-phase.ts';
import type { PolicyStatus } from '../apis/policy-status.ts';
import type { RolloutStatus } from '../apis/rollout.ts';
import { NODE_VIEWS_PATH, type NodeReport } from '../apis/stream.ts';
import type { KubeApi } from '../controller/kubeapi/kube-api.ts';
import { NODEWALL_POLICIES } from '../controller/status/policy-path.ts';
import { EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { withCluster } from './cluster-api.ts';
import { json, print } from './output.ts';
import { type ClusterStatus, type Problem, statusText } from './status-text.ts';

interface StatusOptions {
  readonly kubeconfig?: string;
  readonly output: 'text' | 'json';
}

interface Listed<S> {
  readonly metadata: { readonly name: string };
  readonly status?: S;
}

const GUARDRAILS = '/apis/nodewall.io/v1alpha1/guardrails';
const NOT_YET = 'no controller has written its status yet';
/** Phases of policies that are as wanted. */
const WELL = ['Realized', 'NoNodes'];

/** `nodewall status`: the state of a cluster. Exit status 1 if there are problems. */
export async function statusCommand({ kubeconfig, output }: StatusOptions): Promise<ExitStatus> {
  return await withCluster(kubeconfig, async (request) => {
    const [nodes, policies, guardrails] = await Promise.all([
      list<NodeReport>(request, NODE_VIEWS_PATH),
      list<PolicyStatus & { readonly rollout?: RolloutStatus }>(request, NODEWALL_POLICIES),
      list<GuardrailStatus>(request, GUARDRAILS),
    ]);
    const now = Date.now();
    const status: ClusterStatus = {
      nodes: counted(nodes.map((one) => nodePhase(one.status ?? null, now))),
      policies: counted(policies.map((one) => one.status?.phase ?? 'Pending')),
      guardrails: counted(guardrails.map((one) => one.status?.phase ?? 'Pending')),
      problems: [
        ...guardrails.flatMap(ofGuardrail),
        ...policies.flatMap(ofPolicy),
        ...nodes.flatMap((one) => ofNode(one, now)),
      ],
    };
    await print(output === 'json' ? json(status) : statusText(status));
    return status.problems.length === 0 ? EXIT.done : EXIT.invalid;
  });
}

async function list<S>(request: KubeApi, path: string): Promise<readonly Listed<S>[]> {
  const { items = [] } = await request<{ readonly items?: readonly Listed<S>[] }>({ method: 'GET', path });
  return items;
}

function counted<P extends string>(phases: readonly P[]): Partial<Record<P, number>> {
  const counts: Partial<Record<P, number>> = {};
  for (const phase of phases) counts[phase] = (counts[phase] ?? 0) + 1;
  return counts;
}

function ofGuardrail({ metadata: { name }, status }: Listed<GuardrailStatus>): Problem[] {
  const object = `Guardrail/${name}`;
  if (status === undefined) return [{ object, phase: 'Pending', message: NOT_YET }];
  if (status.phase === 'Holds') return [];
  const [{ node = '', item = '', rule = null } = {}] = status.violations;
  const by = rule === null ? 'no rule' : `${rule.policy}/${rule.rule}`;
  const message = `${item} on ${node}: decided by ${by}`;
  return [{ object, phase: status.phase, message }];
}

function ofPolicy({
  metadata: { name },
  status,
}: Listed<PolicyStatus & { readonly rollout?: RolloutStatus }>): Problem[] {
  const object = `ClusterNetworkPolicy/${name}`;
  if (status === undefined) return [{ object, phase: 'Pending', message: NOT_YET }];
  const { phase, failingNodes = [], problems = [], conditions, rollout } = status;
  if (rollout?.decision?.state === 'Paused')
    return [{ object, phase: 'Paused', message: rollout.message ?? `rollout ${rollout.progress ?? ''}` }];
  if (WELL.includes(phase)) return [];
  const [failing] = failingNodes;
  const message =
    problems[0] ??
    (failing === undefined
      ? conditions.find(({ type }) => type === 'Realized')?.message
      : `${failing.node}: ${failing.reason}`) ??
    `${status.currentNodesRealized} of ${status.desiredNodesRealized} nodes enforce it`;
  return [{ object, phase, message }];
}

/** Rules that fail are named with their policies. */
function ofNode({ metadata: { name }, status }: Listed<NodeReport>, now: number): Problem[] {
  const phase = nodePhase(status ?? null, now);
  const problem = (message: string): Problem[] => [{ object: `Node/${name}`, phase, message }];
  switch (phase) {
    case 'Enforced':
    case 'Disabled':
      return [];
    case 'Pending':
      return problem('it has rules that are not in force yet');
    case 'Failing':
      return problem(`${status?.failing.length} rules fail; the first: ${status?.failing[0]?.reason}`);
    case 'NotFollowing':
      return problem(status?.viewError ?? '');
    case 'Off':
      return problem(`nodewall off${status?.off ? `: ${status.off}` : ''}; nothing is enforced`);
    case 'Silent':
      return problem(`no report since ${status?.time}; the last rules are in force`);
    case 'Unknown':
      return problem('its agent has never reported');
    default:
      return phase satisfies never;
  }
}
