import { join } from 'node:path';
import { addressPlan, createTopology } from '../../test/netns/topology.ts';
import { THOUSAND_RULES } from '../generate/cluster.ts';
import { writeManifests } from '../generate/manifests.ts';
import { amount, type Benchmark, type Figure, figure } from '../measure/figure.ts';
import { column, runTrial } from '../measure/process.ts';

const SIZES = [10_000, 100_000, 200_000] as const;

export const established: Benchmark = {
  name: 'established',
  title: 'established connections',
  how: 'perf/trials/established.ts: the kernel tracks so many UDP connections (`conntrack -R`), from as many addresses, to the ports of 1,000 rules. One pass reads and judges all; the next one ends the tenth that a policy denies. The longest pause is that of the event loop (monitorEventLoopDelay, 1 ms), in which heartbeats and the stream wait.',
  async run(settings) {
    const manifests = join(settings.folder, 'manifests');
    await writeManifests(manifests, THOUSAND_RULES);
    const figures: Figure[] = [];
    for (const entries of SIZES) {
      const rows: Record<string, number>[] = [];
      for (let i = 0; i < amount(settings, [1, 3, 5]); i++) rows.push(await trial(manifests, entries));
      const count = entries.toLocaleString('en');
      figures.push(
        figure(`${count} connections judged against 1,000 rules`, 'ms', column(rows, 'read')),
        figure(`… and a tenth of them ended`, 'ms', column(rows, 'end')),
        figure(`… longest pause of the event loop`, 'ms', column(rows, 'delay')),
        figure(`… memory more than before`, 'MB', column(rows, 'memory')),
      );
    }
    return figures;
  },
};

async function trial(manifests: string, entries: number): Promise<Record<string, number>> {
  const topology = await createTopology(addressPlan({ clients: 0 }));
  try {
    return await runTrial('established', { manifests, entries }, topology.node);
  } finally {
    await topology.close();
  }
}
