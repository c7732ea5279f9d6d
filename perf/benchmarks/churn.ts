import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { addressPlan, createTopology } from '../../test/netns/topology.ts';
import { ruleSet } from '../generate/kinds.ts';
import { listText } from '../generate/manifests.ts';
import { clusterObjects, type RuleSet, writeRuleSet } from '../generate/ruleset.ts';
import { type MeasuredAgent, startAgent } from '../measure/agent.ts';
import { amount, atMost, type Benchmark, figure, type Settings } from '../measure/figure.ts';
import { median } from '../measure/statistics.ts';

const RULES = 10_000;
/** After the first enforcement: by then the last good state is on disk. */
const QUIET = 10_000;
/** Between two changes. */
const PERIOD = 1000;
const SAMPLE = 2000;

export const churn: Benchmark = {
  name: 'churn',
  title: 'idle, and change after change',
  how: `A running \`bin/nodewall agent\` with ${RULES.toLocaleString('en')} rules: its processor time while nothing happens (/proc/PID/stat), then a change a second for 2 minutes, 30 where the benchmark is run by its name (\`npm run perf -- churn\`): by turns a policy file saved with another action and a pod file saved with another address. Growth is the median resident memory of the last quarter less that of the second.`,
  async run(settings) {
    const minutes = amount(settings, [0.2, 2, 30]);
    const idleSeconds = amount(settings, [5, 30, 60]);
    const { idle, busy, samples, enforced, changes } = await measure(settings, minutes, idleSeconds);
    const quarter = (from: number) =>
      median(
        samples.slice(Math.floor((from * samples.length) / 4), Math.ceil(((from + 1) * samples.length) / 4)),
      );
    return [
      figure(`agent idle with 10,000 rules, ${idleSeconds} s`, '%', [idle], {
        target: atMost(0.5),
        note: 'of a core',
      }),
      figure(`memory growth over ${minutes} minutes of churn`, 'MB', [quarter(3) - quarter(1)], {
        target: atMost(10),
        note: `${changes} changes, ${enforced} enforced`,
      }),
      figure('… resident meanwhile', 'MB', samples),
      figure('… processor, a change a second', '%', [busy], { note: 'of a core' }),
    ];
  },
};

interface Measured {
  /** Percent of a core. */
  readonly idle: number;
  readonly busy: number;
  /** Megabytes. */
  readonly samples: readonly number[];
  readonly enforced: number;
  readonly changes: number;
}

async function measure({ folder }: Settings, minutes: number, idleSeconds: number): Promise<Measured> {
  const [manifests, stateDir] = [join(folder, 'manifests'), join(folder, 'state')];
  await mkdir(stateDir, { recursive: true });
  const change = await writeChanging(folder, manifests, ruleSet('ports', RULES));
  const topology = await createTopology(addressPlan({ clients: 0 }));
  const agent = startAgent({ namespace: topology.node, manifests, stateDir });
  try {
    await agent.untilEnforced(1);
    await pause(QUIET);
    const idle = await processorShare(agent, () => pause(idleSeconds * 1000));
    const before = agent.enforced().length;
    const samples: number[] = [];
    let changes = 0;
    const busy = await processorShare(agent, async () => {
      const end = performance.now() + minutes * 60_000;
      let next = performance.now();
      let sample = next;
      while (performance.now() < end) {
        await change(changes++);
        if (performance.now() >= sample) {
          samples.push((await agent.memory()).now);
          sample += SAMPLE;
        }
        next += PERIOD;
        await pause(Math.max(0, next - performance.now()));
      }
    });
    return { idle, busy, samples, enforced: agent.enforced().length - before, changes };
  } finally {
    await agent.stop();
    await topology.close();
  }
}

async function processorShare(agent: MeasuredAgent, work: () => Promise<void>): Promise<number> {
  const [time, start] = [await agent.processorTime(), performance.now()];
  await work();
  return (100 * ((await agent.processorTime()) - time)) / ((performance.now() - start) / 1000);
}

/**
 * All policies but one in a file, that one and a pod of a small deployment in files of their own.
 * Gives what saves the n-th change, by rename.
 */
async function writeChanging(
  folder: string,
  manifests: string,
  set: RuleSet,
): Promise<(index: number) => Promise<void>> {
  await writeRuleSet(manifests, set);
  const policies = clusterObjects(set).filter(isPolicy);
  const [first, ...others] = policies;
  if (first === undefined) throw new Error('no policy');
  await writeFile(join(manifests, 'policies.json'), listText(others));
  const save = async (name: string, object: object) => {
    const temporary = join(folder, name);
    await writeFile(temporary, JSON.stringify(object));
    await rename(temporary, join(manifests, name));
  };
  const changed = async (index: number) => {
    if (index % 2 === 0)
      await save('changing-policy.json', withAction(first, index % 4 === 0 ? 'Drop' : 'Allow'));
    else await save('changing-pod.json', changingPod(index));
  };
  await save('changing-policy.json', first);
  await changed(1);
  return changed;
}

interface Policy {
  readonly kind: string;
  readonly spec: { readonly ingress: readonly object[] };
}

function isPolicy(object: object): object is Policy {
  return (object as { kind?: string }).kind === 'ClusterNetworkPolicy';
}

function withAction(policy: Policy, action: string): object {
  const [rule, ...rules] = policy.spec.ingress;
  return { ...policy, spec: { ...policy.spec, ingress: [{ ...rule, action }, ...rules] } };
}

/** Of the first list of pods, with another address each time. */
function changingPod(index: number): object {
  const ip = `10.129.${(index >> 8) & 255}.${index & 255}`;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'changing', namespace: 'shop', labels: { app: 'app-0' } },
    spec: { nodeName: 'worker-1' },
    status: { phase: 'Running', podIP: ip, podIPs: [{ ip }] },
  };
}
