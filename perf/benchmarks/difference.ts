import { DIFFERENCE_CHANGES, type DifferenceInput } from '../measure/difference.ts';
import { atMost, type Benchmark, type Figure, figure, trials } from '../measure/figure.ts';
import { column, runTrial } from '../measure/process.ts';

const TITLES = {
  rule: 'the action of one rule',
  deny: 'a blanket deny for all nodes before most rules',
  all: 'the action of every rule',
} as const;

/** As bin/nodewall starts `nodewall diff`. */
const NODE_OPTIONS = ['--max-semi-space-size=16'];

export const difference: Benchmark = {
  name: 'difference',
  title: 'exact difference of two clusters',
  how: 'perf/trials/difference.ts, a process each: policies for all nodes and for 50 pools, with peers of every kind; the time of `clusterDifference` on two compiled states, all names of sets and rules looked up for the first time. Memory: the highest of the process, with both clusters in it. perf/trials/impact.ts: what the webhook evaluates, with ten Guardrails of four flows each.',
  async run(settings) {
    const nodes = settings.quick ? 500 : 5000;
    const pods = settings.quick ? 2000 : 20_000;
    const figures: Figure[] = [];
    for (const change of DIFFERENCE_CHANGES) {
      const runs: Record<string, number>[] = [];
      for (let i = 0; i < trials(settings, 5, 3); i++) {
        const input: DifferenceInput = { nodes, pods, policies: 100, rulesAPolicy: 10, change };
        runs.push(await runTrial('difference', input, undefined, NODE_OPTIONS));
      }
      const [first] = runs;
      const what = `difference of 1,000 rules on ${nodes} nodes: ${TITLES[change]}`;
      figures.push(
        figure(
          what,
          's',
          column(runs, 'milliseconds').map((time) => time / 1000),
          {
            target: atMost(3),
            note: `${first?.nodes} nodes in ${first?.groups} groups, ${first?.rows} rows; processor time ${Math.round(first?.cpu ?? 0)} ms`,
          },
        ),
        figure('… memory of the process', 'MB', column(runs, 'peak'), {
          target: atMost(400),
          note: `${Math.round(first?.before ?? 0)} MB with both clusters compiled`,
        }),
      );
    }
    const cluster = { nodes, policies: 100, rulesAPolicy: 10 };
    return [
      ...figures,
      ...(await impactFigures(settings, { ...cluster, pods })),
      ...(await impactFigures(settings, { ...cluster, pods: 5 * pods })),
    ];
  },
};

/** What admission waits for. */
async function impactFigures(
  settings: Parameters<Benchmark['run']>[0],
  cluster: Omit<DifferenceInput, 'change'>,
): Promise<Figure[]> {
  const runs: Record<string, number>[] = [];
  for (let i = 0; i < trials(settings, 5, 3); i++) {
    const input: DifferenceInput = { ...cluster, change: 'rule' };
    runs.push(await runTrial('impact', input));
  }
  const seconds = (name: string): number[] => column(runs, name).map((time) => time / 1000);
  return [
    figure(
      `a change of one rule at admission, ${cluster.pods} pods: Guardrails, difference, unreachable rules`,
      's',
      seconds('milliseconds'),
      {
        target: atMost(1.8),
        note: `processor time ${Math.round(runs[0]?.cpu ?? 0)} ms`,
      },
    ),
    figure(`ten Guardrails evaluated again, ${cluster.pods} pods`, 's', seconds('again'), {
      target: atMost(1),
    }),
  ];
}
