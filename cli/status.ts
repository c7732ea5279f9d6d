import { type NodePhase, type NodeReport, nodePhase } from '../apis/node-report.ts';
import type { PolicyStatus } from '../apis/policy-status.ts';
import type { RolloutStatus } from '../apis/rollout.ts';
import { isUnderWay, type Reported, type StatusProblem, statusProblems } from '../apis/status-problems.ts';
import { NODE_VIEWS_PATH } from '../apis/stream.ts';
import type { GuardrailStatus } from '../apis/validate/guardrail.ts';
import { NODEWALL_POLICIES } from '../controller/status/writer.ts';
import { EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { styled } from '../lib/process/terminal.ts';
import { itemsAt, withCluster } from './cluster-api.ts';
import { json, table, watched } from './output.ts';
import { fieldText, oneLine } from './record-text.ts';

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
        itemsAt<Listed<NodeReport>>(request, NODE_VIEWS_PATH),
        itemsAt<Listed<PolicyStatus & { readonly rollout?: RolloutStatus }>>(request, NODEWALL_POLICIES),
        itemsAt<Listed<GuardrailStatus>>(request, GUARDRAILS),
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
        problems: statusProblems(
          { guardrails: guardrails.map(named), policies: policies.map(named), nodes: nodes.map(named) },
          now,
        ),
      };
      await show(output === 'json' ? json(status) : statusText(status));
      return status.problems.length === 0 ? EXIT.done : EXIT.invalid;
    }),
  );
}

function counted<P extends string>(phases: readonly P[]): Partial<Record<P, number>> {
  const counts: Partial<Record<P, number>> = {};
  for (const phase of phases) counts[phase] = (counts[phase] ?? 0) + 1;
  return counts;
}

function named<S>({ metadata: { name }, status }: Listed<S>): Reported<S> {
  return { name, status };
}

interface RolloutUnderWay {
  readonly policy: string;
  /** As in `Step 1 of 4`. */
  readonly progress: string;
  /** Counts of nodes, and when the next step begins. */
  readonly message: string;
}

/** The data that `nodewall status` shows. */
interface ClusterStatus {
  /** By phase; those without Nodes are left out. */
  readonly nodes: Readonly<Partial<Record<NodePhase, number>>>;
  readonly policies: Readonly<Record<string, number>>;
  readonly guardrails: Readonly<Record<string, number>>;
  /** Those that go on as they should. */
  readonly rollouts: readonly RolloutUnderWay[];
  /** The worst first. */
  readonly problems: readonly StatusProblem[];
}

/** Problems of one kind and phase that are named; a node that is lost has many neighbours. */
const MOST_ALIKE = 5;

/** One screen: problems first, then counts. */
export function statusText({ nodes, policies, guardrails, rollouts, problems }: ClusterStatus): string {
  const rows: string[][] = [];
  for (const [, alike] of Map.groupBy(problems, ({ object, phase }) => `${object.split('/')[0]} ${phase}`)) {
    for (const { object, phase, message } of alike.slice(0, MOST_ALIKE))
      rows.push([fieldText(object), phase, oneLine(message)]);
    const [first] = alike;
    const left = alike.length - MOST_ALIKE;
    if (left > 0 && first !== undefined) rows.push([`${left} more`, first.phase, '-o json shows all']);
  }
  const shown = rows.length === 0 ? '' : `${table(['problem', 'phase', 'why'], rows)}\n`;
  const counts = [
    ['nodes', countText(nodes)],
    ['policies', countText(policies)],
    ['guardrails', countText(guardrails)],
    ...rollouts.map(({ policy, progress, message }, i) => [
      i === 0 ? 'rollouts' : '',
      oneLine(`${fieldText(policy)}: ${progress}. ${message}`),
    ]),
  ];
  const summary = counts.map(([name = '', text]) => `${styled('bold', name.padEnd(12))}${text}\n`).join('');
  return `${shown}${summary}${rows.length === 0 ? 'No problems.\n' : ''}`;
}

/** As in `12 Realized, 1 Failed`. */
function countText(counts: Readonly<Record<string, number | undefined>>): string {
  const parts = Object.entries(counts).map(([phase, count]) => `${count} ${phase}`);
  return parts.length === 0 ? 'none' : parts.join(', ');
}
