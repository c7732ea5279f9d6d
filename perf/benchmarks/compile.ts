import { join } from 'node:path';
import { THOUSAND_RULES } from '../generate/cluster.ts';
import { writeManifests } from '../generate/manifests.ts';
import { atMost, type Benchmark, figure, trials } from '../measure/figure.ts';
import { column, runTrial } from '../measure/process.ts';

export const compileRender: Benchmark = {
  name: 'compile',
  title: 'compile and render',
  how: 'perf/trials/compile.ts: compile, the view of one node and render, of objects that are loaded already. Cold is the first in its process; warm the median of the sixth to twentieth.',
  async run(settings) {
    const manifests = join(settings.folder, 'manifests');
    await writeManifests(manifests, THOUSAND_RULES);
    const rows: Record<string, number>[] = [];
    for (let i = 0; i < trials(settings, 11, 7); i++) rows.push(await runTrial('compile', { manifests }));
    const [first] = rows;
    const note = `${first?.rules} rules, ${first?.addressSets} address sets; ${first?.chains} chains, ${first?.sets} kernel sets`;
    return [
      figure('compile + render of 1,000 rules, 200 address sets, cold', 'ms', column(rows, 'cold'), {
        target: atMost(50),
        note,
      }),
      figure('… warm', 'ms', column(rows, 'warm'), { target: atMost(50) }),
      figure('… cold, of it compile', 'ms', column(rows, 'coldCompile')),
      figure('… cold, of it render', 'ms', column(rows, 'coldRender')),
      figure('… processor time of the cold one, all threads', 'ms', column(rows, 'coldCpu')),
      figure('nft text of it besides, cold', 'ms', column(rows, 'coldText')),
    ];
  },
};
