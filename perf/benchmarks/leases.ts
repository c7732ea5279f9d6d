import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { addressPlan, createTopology } from '../../test/netns/topology.ts';
import { ruleSet } from '../generate/kinds.ts';
import { distinctSets } from '../generate/large.ts';
import { type RuleSet, writeRuleSet } from '../generate/ruleset.ts';
import { type Benchmark, type Figure, figure, type Settings, trials } from '../measure/figure.ts';
import { column, runTrial } from '../measure/process.ts';

const RULES = 10_000;

export const leases: Benchmark = {
  name: 'leases',
  title: 'renewal of leases during a large apply',
  how: 'perf/trials/renewal.ts: render and first apply of 10,000 rules in an empty network namespace; meanwhile a timer of 10 ms in the main thread and in a worker thread, and in the worker a transaction that deletes and adds an element of another table, one after another. The longest delay of each.',
  async run(settings) {
    return [
      ...(await figures('200 lists of peers', ruleSet('ports', RULES), settings)),
      ...(await figures('10,000 distinct lists', distinctSets(RULES), settings)),
    ];
  },
};

async function figures(what: string, set: RuleSet, settings: Settings): Promise<Figure[]> {
  const manifests = join(settings.folder, `leases-${set.rules.length}-${what.replaceAll(/\W/g, '-')}`);
  await mkdir(manifests, { recursive: true });
  await writeRuleSet(manifests, set);
  const rows: Record<string, number>[] = [];
  for (let i = 0; i < trials(settings, 5, 3); i++) {
    const topology = await createTopology(addressPlan({ clients: 0 }));
    try {
      rows.push(await runTrial('renewal', { manifests }, topology.node));
    } finally {
      await topology.close();
    }
  }
  return [
    figure(`10,000 rules, ${what}: a timer of the main thread is late by`, 'ms', column(rows, 'late')),
    figure('… of the thread of leases', 'ms', column(rows, 'workerLate')),
    figure('… a renewal in the kernel takes', 'ms', column(rows, 'batch')),
  ];
}
