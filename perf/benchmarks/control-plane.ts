import { join } from 'node:path';
import { type ControlPlaneSize, LARGE, NAMESPACED, writeControlPlane } from '../generate/control-plane.ts';
import {
  amount,
  atMost,
  type Benchmark,
  type Figure,
  figure,
  type Settings,
  trials,
} from '../measure/figure.ts';
import { column, runTrial } from '../measure/process.ts';
import { summarise } from '../measure/statistics.ts';

type Rows = readonly Readonly<Record<string, number>>[];

export const controlPlane: Benchmark = {
  name: 'controlplane',
  title: 'the controller at the size of a large cluster',
  how: 'perf/trials/control-plane.ts: from the lists as the API server sends them (pods of 1.8 kB), read, parsed, narrowed, compiled and published, until every node has asked for its view and been given it; then one change after another, each compiled and published, the median and the worst of one trial. No network.',
  async run(settings) {
    const [large, namespaced] = [
      await measured(LARGE, settings, trials(settings, 5, 2)),
      await measured(NAMESPACED, settings, amount(settings, [1, 1, 3])),
    ];
    return [
      ...coldStart('5,000 nodes, 1,000 policies (10,000 rules), 100,000 pods, 25,000 namespaces', large, {
        seconds: 5,
        megabytes: 1200,
      }),
      ...CHANGES.flatMap(({ name, what, most }) => [
        figure(`${what}, compile`, 'ms', column(large, name), {
          target: most === null ? null : atMost(most),
          note: `processor time ${summarise(column(large, `${name}Cpu`)).median.toFixed(2)} ms, least ${Math.min(...column(large, `${name}Least`)).toFixed(2)} ms, worst ${Math.max(...column(large, `${name}Worst`)).toFixed(1)} ms`,
        }),
        figure('… publish', 'ms', column(large, `${name}Publish`)),
      ]),
      ...coldStart('75,000 policies, 100,000 pods, 25,000 namespaces, 1,000 nodes', namespaced, {
        seconds: null,
        megabytes: null,
      }),
      figure('… one pod changed, compile', 'ms', column(namespaced, 'podAddress')),
    ];
  },
};

const CHANGES = [
  { name: 'podAddress', what: 'one pod with another address', most: 1 },
  { name: 'podLabels', what: 'one pod with other labels', most: 1 },
  { name: 'podNew', what: 'one pod more', most: 1 },
  { name: 'podGone', what: 'one pod less', most: 1 },
  { name: 'nodeLabels', what: 'one node relabelled', most: 5 },
  { name: 'nodeNew', what: 'one node more', most: null },
  { name: 'nodeGone', what: 'one node less', most: null },
  { name: 'namespaceLabels', what: 'one namespace relabelled', most: null },
  { name: 'policyEdited', what: 'one policy edited', most: null },
] as const;

/** As bin/nodewall starts a controller. */
const NODE_OPTIONS = ['--no-parallel-scavenge'];

async function measured(size: ControlPlaneSize, { folder }: Settings, count: number): Promise<Rows> {
  const pages = join(folder, `${size.shape}.jsonl`);
  await writeControlPlane(pages, size);
  const rows: Record<string, number>[] = [];
  for (let i = 0; i < count; i++) {
    rows.push(await runTrial('control-plane', { pages, changes: 50 }, undefined, NODE_OPTIONS));
  }
  return rows;
}

interface Limits {
  readonly seconds: number | null;
  readonly megabytes: number | null;
}

function coldStart(what: string, rows: Rows, { seconds, megabytes }: Limits): Figure[] {
  const inSeconds = (name: string) => column(rows, name).map((milliseconds) => milliseconds / 1000);
  const limit = (most: number | null) => ({ target: most === null ? null : atMost(most) });
  return [
    figure(`cold start: ${what}`, 's', inSeconds('start'), limit(seconds)),
    figure('… of it read and parsed', 's', inSeconds('parse'), {
      note: `${rows[0]?.megabytes?.toFixed(0)} MB`,
    }),
    figure('… of it validated and narrowed', 's', inSeconds('narrow')),
    figure('… of it compiled', 's', inSeconds('compile')),
    figure('… of it published', 's', inSeconds('publish')),
    figure('… of it the views of all nodes', 's', inSeconds('views')),
    figure('… processor time, all threads', 's', inSeconds('startCpu'), {
      note: ['parse', 'narrow', 'compile', 'views']
        .map((name) => `${name} ${summarise(inSeconds(`${name}Cpu`)).median.toFixed(2)}`)
        .join(', '),
    }),
    figure('… resident at most, all changes included', 'MB', column(rows, 'peak'), limit(megabytes)),
    figure('… resident then, garbage collected', 'MB', column(rows, 'resident')),
    figure('what the first change needs besides, built once', 's', inSeconds('prepare')),
  ];
}
