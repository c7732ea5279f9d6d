import { atMost, type Benchmark, figure, trials } from '../measure/figure.ts';
import { column, runTrial } from '../measure/process.ts';

export const allNodes: Benchmark = {
  name: 'all-nodes',
  title: 'metrics of all nodes',
  how: 'perf/trials/all-nodes.ts: the page at /metrics/nodes of a controller with the reports of 5,000 nodes, each of which hits 100 of 3,000 rules that drop. The longest pause is that of the event loop (monitorEventLoopDelay, 1 ms), in which the streams of agents wait.',
  async run(settings) {
    const rows: Record<string, number>[] = [];
    for (let i = 0; i < trials(settings, 11); i++)
      rows.push(await runTrial('all-nodes', { nodes: 5_000, rules: 3_000 }));
    const megabytes = column(rows, 'bytes').map((bytes) => bytes / 1e6);
    const note = `${rows[0]?.series} series`;
    return [
      figure('page of 5,000 nodes, the first', 'ms', column(rows, 'first'), { target: atMost(2_000), note }),
      figure('… the second', 'ms', column(rows, 'second'), { target: atMost(2_000) }),
      figure('… its size', 'MB', megabytes, { target: atMost(12) }),
      figure('… longest pause of the event loop', 'ms', column(rows, 'pause')),
    ];
  },
};
