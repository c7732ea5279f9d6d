import { join } from 'node:path';
import { addressPlan, createTopology } from '../../test/netns/topology.ts';
import { THOUSAND_RULES } from '../generate/cluster.ts';
import { writeManifests } from '../generate/manifests.ts';
import { atMost, type Benchmark, figure } from '../measure/figure.ts';
import { column, runTrial } from '../measure/process.ts';

export const members: Benchmark = {
  name: 'members',
  title: '100,000 addresses',
  how: 'perf/trials/members.ts: with 1,000 rules in force, NodeRuleReconciler.apply of a set with 99,999 addresses where there was one, then fifteen times one more and one less (the median is one trial).',
  async run(settings) {
    const manifests = join(settings.folder, 'manifests');
    await writeManifests(manifests, { ...THOUSAND_RULES, extraPods: 100_000 });
    const hash: Record<string, number>[] = [];
    const interval: Record<string, number>[] = [];
    for (let i = 0; i < (settings.quick ? 1 : 5); i++) {
      hash.push(await trial(manifests, false));
      interval.push(await trial(manifests, true));
    }
    const fills = column(hash, 'fill').map((milliseconds) => milliseconds / 1000);
    return [
      figure('100,000 pod addresses into one set', 's', fills, { target: atMost(0.25) }),
      figure('one address added to it, in the reconciler', 'ms', column(hash, 'add'), { target: atMost(2) }),
      figure('one address taken from it', 'ms', column(hash, 'remove')),
      figure(
        'one address added, compile and render of everything included',
        'ms',
        column(hash, 'addWithCompile'),
      ),
      figure(
        '100,000 addresses beside a prefix (an interval set)',
        's',
        column(interval, 'fill').map((ms) => ms / 1000),
      ),
      figure('one address added to that one', 'ms', column(interval, 'add')),
    ];
  },
};

async function trial(manifests: string, interval: boolean): Promise<Record<string, number>> {
  const topology = await createTopology(addressPlan({ clients: 0 }));
  try {
    return await runTrial('members', { manifests, interval }, topology.node);
  } finally {
    await topology.close();
  }
}
