import { atMost, type Benchmark, figure, trials } from '../measure/figure.ts';
import { column, runTrial } from '../measure/process.ts';

/** As bin/nodewall starts its commands. */
const NODE_OPTIONS = ['--max-semi-space-size=16'];

export const flowImpact: Benchmark = {
  name: 'impact',
  title: 'impact of a change on a full flow inventory',
  how: 'perf/trials/flow-impact.ts, a process each: 10,000 kinds of flows of a node, half of which a rule matches, against 1,000 rules; the change is the action of every rule. The time of `FlowImpact.of`, with the index of both states, and of all pages as the agent makes them.',
  async run(settings) {
    const runs: Record<string, number>[] = [];
    for (let i = 0; i < trials(settings, 9); i++)
      runs.push(await runTrial('flow-impact', { kinds: 10_000 }, undefined, NODE_OPTIONS));
    const [first] = runs;
    if (
      first?.kinds !== 10_000 ||
      !(Number(first.denied) + Number(first.allowed) > 1_000) ||
      first.otherwise !== 0
    )
      throw new Error(`not every kind was judged: ${JSON.stringify(first)}`);
    const seconds = (name: string): number[] => column(runs, name).map((time) => time / 1000);
    return [
      figure('10,000 kinds of a node against 1,000 rules, before and after', 's', seconds('judgeMs'), {
        target: atMost(1),
        note: `${first.denied} newly denied, ${first.allowed} newly allowed; processor time ${Math.round(Math.min(...column(runs, 'judgeCpu')))} ms at least`,
      }),
      figure('… the pages of the agent', 's', seconds('pagesMs'), { note: `${first.pages} pages` }),
    ];
  },
};
