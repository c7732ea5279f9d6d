import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createNamespace } from '../../test/netns/namespace.ts';
import { addressPlan, createTopology } from '../../test/netns/topology.ts';
import { THOUSAND_RULES } from '../generate/cluster.ts';
import { writeManifests } from '../generate/manifests.ts';
import { startAgent } from '../measure/agent.ts';
import { atMost, type Benchmark, type Figure, figure, trials } from '../measure/figure.ts';
import { column, runTrial } from '../measure/process.ts';
import { quantile } from '../measure/statistics.ts';

const BURST = 200;

export const interfaces: Benchmark = {
  name: 'interfaces',
  title: 'interface groups',
  how: `perf/trials/interfaces.ts, in the namespace of an agent that enforces 1,000 rules: veths with their other end in another namespace, made by ip, one alone and ${BURST} at once. Timed from the kernel's event that tells of the link until its event that tells of the group, as another process gets both.`,
  async run(settings) {
    const manifests = join(settings.folder, 'manifests');
    await mkdir(manifests, { recursive: true });
    await writeManifests(manifests, THOUSAND_RULES);
    const config = join(settings.folder, 'config.yaml');
    await writeFile(config, "interfaceGroupFile: ''\n");
    const topology = await createTopology(addressPlan({ clients: 0 }));
    const pods = await createNamespace('pods');
    const place = { namespace: topology.node, manifests, stateDir: join(settings.folder, 'state') };
    const agent = startAgent({ ...place, options: ['--config', config] });
    const trial = (prefix: string, count: number) =>
      runTrial('interfaces', { pod: pods.pid, prefix, count }, topology.node);
    try {
      await agent.untilEnforced(1);
      const single: Record<string, number>[] = [];
      const burst: Record<string, number>[] = [];
      for (let i = 0; i < trials(settings, 100); i++) single.push(await trial(`s${i}x`, 1));
      for (let i = 0; i < trials(settings, 9); i++) burst.push(await trial(`b${i}x`, BURST));
      return figures(single, burst);
    } finally {
      await agent.stop();
      await Promise.all([topology.close(), pods.close()]);
    }
  },
};

function figures(single: Record<string, number>[], burst: Record<string, number>[]): Figure[] {
  const alone = column(single, 'slowest');
  const target = atMost(50);
  return [
    figure('one new pod interface to its group, from the event', 'ms', alone, {
      target,
      note: `99th percentile ${quantile(alone, 0.99).toPrecision(3)} ms`,
    }),
    figure('… from the start of the ip process that makes it', 'ms', column(single, 'fromCommand')),
    figure(`${BURST} at once: the slowest of them, from its event`, 'ms', column(burst, 'slowest'), {
      target,
    }),
    figure('… half of them within', 'ms', column(burst, 'middle')),
    figure('… from the last one made until all are in their group', 'ms', column(burst, 'fromLast')),
    figure('… ip itself, making them', 'ms', column(burst, 'making')),
  ];
}
