import { spawn } from 'node:child_process';
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { addressPlan, createTopology } from '../../test/netns/topology.ts';
import { policy, RULES_A_POLICY, THOUSAND_RULES } from '../generate/cluster.ts';
import { policyFile, writeManifests, yamlText } from '../generate/manifests.ts';
import { startAgent } from '../measure/agent.ts';
import { amount, atMost, type Benchmark, type Figure, figure, type Settings } from '../measure/figure.ts';
import { column, memoryOf } from '../measure/process.ts';

/** After the last thing that happened: by then the last good state is on disk. */
const QUIET = 8_000;
const CHANGES = 5;
const SIZE = { ...THOUSAND_RULES, extraPods: 100_000 };
/** The least that an agent is used for. */
const ONE_POLICY = { rules: RULES_A_POLICY, sets: 1, members: 5, extraPods: 0 };

export const memory: Benchmark = {
  name: 'memory',
  title: 'memory of the agent',
  how: `Resident memory of \`bin/nodewall agent\` (VmRSS, VmHWM of /proc/PID/status) ${QUIET / 1000} s after it enforced 1,000 rules and a set of 100,000 pods, then again after ${CHANGES} saved changes.`,
  async run(settings) {
    const figures: Figure[] = await idle(settings);
    for (const format of settings.quick ? (['json'] as const) : (['json', 'yaml'] as const)) {
      const manifests = join(settings.folder, format);
      await writeManifests(manifests, SIZE, { podFormat: format });
      const rows: Record<string, number>[] = [];
      const wanted = format === 'json' ? amount(settings, [1, 2, 5]) : 1;
      for (let i = 0; i < wanted; i++)
        rows.push(await trial(manifests, join(settings.folder, `${format}-state-${i}`)));
      const from = format === 'json' ? 'pods in one JSON List' : 'pods in one YAML file';
      const target = format === 'json' ? atMost(200) : null;
      figures.push(
        figure(
          `agent memory with 1,000 rules and 100,000 addresses, ${from}, steady`,
          'MB',
          column(rows, 'steady'),
          { target },
        ),
        figure(`… after ${CHANGES} changes`, 'MB', column(rows, 'changed'), { target }),
        figure('… peak', 'MB', column(rows, 'peak'), { target }),
        figure('… from the start of the agent to enforced', 's', column(rows, 'start')),
      );
    }
    return figures;
  },
};

/** With one policy; and what Node.js itself takes, which is the floor. */
async function idle(settings: Settings): Promise<Figure[]> {
  const { folder } = settings;
  const manifests = join(folder, 'one-policy');
  await writeManifests(manifests, ONE_POLICY);
  const agents: number[] = [];
  const floors: number[] = [];
  for (let i = 0; i < amount(settings, [1, 2, 5]); i++) {
    const topology = await createTopology(addressPlan({ clients: 0 }));
    const agent = startAgent({
      namespace: topology.node,
      manifests,
      stateDir: join(folder, `one-policy-${i}`),
    });
    const node = spawn(process.execPath, ['--eval', 'setInterval(() => {}, 60_000)']);
    try {
      await agent.untilEnforced(1);
      await pause(QUIET);
      agents.push((await agent.memory()).now);
      floors.push((await memoryOf(node.pid ?? 0)).now);
    } finally {
      node.kill();
      await agent.stop();
      await topology.close();
    }
  }
  return [
    figure('agent memory with one policy, idle', 'MB', agents, { target: atMost(70) }),
    figure('… of it a Node.js process that does nothing', 'MB', floors),
  ];
}

async function trial(manifests: string, stateDir: string): Promise<Record<string, number>> {
  const topology = await createTopology(addressPlan({ clients: 0 }));
  await saveFirstPolicy(manifests, 'Reject');
  const start = performance.now();
  const agent = startAgent({ namespace: topology.node, manifests, stateDir });
  try {
    await agent.untilEnforced(1);
    const seconds = (performance.now() - start) / 1000;
    await pause(QUIET);
    const steady = await agent.memory();
    for (let i = 0; i < CHANGES; i++) {
      const enforced = agent.enforced().length;
      await saveFirstPolicy(manifests, i % 2 === 0 ? 'Drop' : 'Allow');
      await agent.untilEnforced(enforced + 1);
      await pause(1500);
    }
    await pause(QUIET);
    const changed = await agent.memory();
    return { steady: steady.now, changed: changed.now, peak: changed.peak, start: seconds };
  } finally {
    await agent.stop();
    await topology.close();
  }
}

async function saveFirstPolicy(manifests: string, action: 'Allow' | 'Drop' | 'Reject'): Promise<void> {
  const temporary = `${manifests}.saved`;
  await writeFile(temporary, yamlText([policy(SIZE, 0, { actions: new Map([[5, action]]) })]));
  await rename(temporary, join(manifests, policyFile(0)));
}
