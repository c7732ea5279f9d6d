import { type NodeReport, nodePhase } from '../apis/node-report.ts';
import type { PolicyStatus } from '../apis/policy-status.ts';
import type { RolloutStatus } from '../apis/rollout.ts';
import {
  gateProblem,
  guardrailProblem,
  isUnderWay,
  nodeProblem,
  policyProblem,
  type Reported,
} from '../apis/status-problems.ts';
import { NODE_VIEWS_PATH } from '../apis/stream.ts';
import type { GuardrailStatus } from '../apis/validate/guardrail.ts';
import type { KubeApi } from '../controller/kubeapi/kube-api.ts';
import { NODEWALL_POLICIES } from '../controller/status/writer.ts';
import { EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { withCluster } from './cluster-api.ts';
import { json } from './output.ts';
import { type ClusterStatus, statusText } from './status-text.ts';
import { watched } from './watched.ts';

interface StatusOptions {
  readonly kubeconfig?: string;
  readonly watch: boolean;
  readonly output: 'text' | 'json';
}

interface Listed<S> {
  readonly metadata: { readonly name: string };
  readonly status?: S;
}

const GUARDRAILS = '/apis/nodewall.io/v1alpha1/guardrails';

/** `nodewall status`: the state of a cluster. Exit status 1 if there are problems. */
export async function statusCommand({ kubeconfig, watch, output }: StatusOptions): Promise<ExitStatus> {
  return await withCluster(kubeconfig, (request) =>
    watched(watch, async (show) => {
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
        rollouts: policies.flatMap(({ metadata: { name }, status: own }) =>
          own !== undefined && isUnderWay(own)
            ? [{ policy: name, progress: own.rollout?.progress ?? '', message: own.rollout?.message ?? '' }]
            : [],
        ),
        problems: [
          gateProblem(policies.map(named), nodes.map(named)),
          ...guardrails.map((one) => guardrailProblem(named(one))),
          ...policies.map((one) => policyProblem(named(one))),
          ...nodes.map((one) => nodeProblem(named(one), now)),
        ].filter((one) => one !== null),
      };
      await show(output === 'json' ? json(status) : statusText(status));
      return status.problems.length === 0 ? EXIT.done : EXIT.invalid;
    }),
  );
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

function named<S>({ metadata: { name }, status }: Listed<S>): Reported<S> {
  return { name, status };
}
