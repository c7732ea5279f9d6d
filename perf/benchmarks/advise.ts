import { ADVISE_PEERS, type AdviseInput } from '../measure/advise.ts';
import { amount, atMost, type Benchmark, type Figure, figure, trials } from '../measure/figure.ts';
import { column, runTrial } from '../measure/process.ts';

const TITLES = { shared: 'peers are Nodes, pods and few others', distinct: 'each peer is another address' };

export const adviseBenchmark: Benchmark = {
  name: 'advise',
  title: 'policies from flow inventories',
  how: 'perf/trials/advise.ts, a process each: inventories of 10,000 kinds, made one after another, taken in, and then the policies. Processor time; memory: the highest of the process. (In a run of all benchmarks 20 and 100 nodes instead of 100 and 500.) With five times as many nodes the time of a kind and the memory stay: the cost is linear, and not every kind is kept.',
  async run(settings) {
    const sizes = amount(settings, [
      [20, 100],
      [20, 100],
      [100, 500],
    ]);
    const figures: Figure[] = [];
    for (const peers of ADVISE_PEERS) {
      for (const nodes of sizes) {
        const input: AdviseInput = { nodes, kinds: settings.quick ? 1_000 : 10_000, peers };
        const runs: Record<string, number>[] = [];
        for (let i = 0; i < trials(settings, 3, 2); i++) runs.push(await runTrial('advise', input));
        const [first] = runs;
        const of = `${nodes} nodes, ${TITLES[peers]}`;
        figures.push(
          figure(`a kind of an inventory taken in: ${of}`, 'µs', column(runs, 'perKind'), {
            target: atMost(50),
            note: `${first?.roles} roles, at most ${first?.rules} rules`,
          }),
          figure('… the policies then', 'ms', column(runs, 'made'), { target: atMost(5_000) }),
          figure('… memory of the process', 'MB', column(runs, 'peak'), { target: atMost(1_000) }),
        );
      }
    }
    return figures;
  },
};
