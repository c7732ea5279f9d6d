import { join } from 'node:path';
import { addressPlan, createTopology } from '../../test/netns/topology.ts';
import { THOUSAND_RULES } from '../generate/cluster.ts';
import { writeManifests } from '../generate/manifests.ts';
import { agentCommand, logLines } from '../measure/agent.ts';
import { atMost, type Benchmark, figure, trials } from '../measure/figure.ts';
import { column, runTrial } from '../measure/process.ts';

export const firstApply: Benchmark = {
  name: 'apply',
  title: 'first apply',
  how: 'perf/trials/apply.ts: NodeRuleReconciler.apply in an empty network namespace, then again with one rule changed. Beside it `bin/nodewall agent --once` in another namespace, and what its log says of the same (render included).',
  async run(settings) {
    const manifests = join(settings.folder, 'manifests');
    await writeManifests(manifests, THOUSAND_RULES);
    const rows: Record<string, number>[] = [];
    const logged: number[] = [];
    const whole: number[] = [];
    for (let i = 0; i < trials(settings, 11, 7); i++) {
      rows.push(await inNamespace((namespace) => runTrial('apply', { manifests }, namespace)));
      const once = await inNamespace(async (namespace) => {
        const stateDir = join(settings.folder, `state-${i}`);
        const start = performance.now();
        const { stderr } = await namespace.run(agentCommand({ manifests, stateDir, options: ['--once'] }));
        return { whole: performance.now() - start, log: stderr };
      });
      whole.push(once.whole / 1000);
      logged.push(
        logLines(once.log).find(({ message }) => message === 'enforced')?.milliseconds ?? Number.NaN,
      );
    }
    return [
      figure('first apply of the same, empty kernel to enforced', 'ms', column(rows, 'apply'), {
        target: atMost(150),
      }),
      figure('… processor time of it, all threads', 'ms', column(rows, 'applyCpu')),
      figure('… as the agent logs it, render included', 'ms', logged),
      figure('… compile, render and apply', 'ms', column(rows, 'compileRenderApply')),
      figure('one rule changed of them: apply alone', 'ms', column(rows, 'secondChangeApply')),
      figure('one rule changed of them: compile and render', 'ms', column(rows, 'secondChangeRender')),
      figure('`bin/nodewall agent --once` with it, whole process', 's', whole),
    ];
  },
};

async function inNamespace<T>(
  work: (namespace: Awaited<ReturnType<typeof createTopology>>['node']) => Promise<T>,
): Promise<T> {
  const topology = await createTopology(addressPlan({ clients: 0 }));
  try {
    return await work(topology.node);
  } finally {
    await topology.close();
  }
}
