import { join } from 'node:path';
import type { Namespace } from '../../test/netns/namespace.ts';
import { addressPlan, createTopology } from '../../test/netns/topology.ts';
import { distinctSets } from '../generate/large.ts';
import { writeYamlFiles } from '../generate/ruleset.ts';
import { startAgent } from '../measure/agent.ts';
import { atMost, type Benchmark, figure, trials } from '../measure/figure.ts';
import { column, runTrial } from '../measure/process.ts';

const RULES = 10_000;

export const start: Benchmark = {
  name: 'start',
  title: '10,000 rules from YAML files',
  how: '`bin/nodewall agent` from its start to its line that the rules are enforced, in an empty network namespace; 1,000 files of ten rules, each rule with addresses of its own. The parts: perf/trials/start.ts, with Node.js’s own settings for the memory; reading YAML in a process of its own.',
  async run(settings) {
    const manifests = join(settings.folder, 'manifests');
    await writeYamlFiles(manifests, distinctSets(RULES));
    const whole: number[] = [];
    const rows: Record<string, number>[] = [];
    const parsed: Record<string, number>[] = [];
    for (let i = 0; i < trials(settings, 5, 2); i++) {
      const stateDir = join(settings.folder, `state-${i}`);
      whole.push(await inNamespace((node) => untilEnforced(node, manifests, stateDir)));
      rows.push(await inNamespace((node) => runTrial('start', { manifests }, node)));
      parsed.push(await runTrial('start', { manifests, only: 'parse' }));
    }
    const seconds = (name: string, of = rows) => column(of, name).map((milliseconds) => milliseconds / 1000);
    const parse = seconds('parse', parsed);
    return [
      figure('10,000 rules with 10,000 distinct sets, from YAML files to enforced', 's', whole, {
        target: atMost(4),
      }),
      figure('… of it start of the process', 's', seconds('start')),
      figure('… read and parse YAML', 's', parse),
      figure(
        '… validate and assemble',
        's',
        seconds('load').map((load, i) => load - (parse[i] ?? Number.NaN)),
      ),
      figure('… compile', 's', seconds('compile')),
      figure('… render', 's', seconds('render')),
      figure(
        '… apply, without the kernel',
        's',
        rows.map(({ apply = 0, kernel = 0 }) => (apply - kernel) / 1000),
      ),
      figure('… in the kernel', 's', seconds('kernel')),
    ];
  },
};

async function untilEnforced(namespace: Namespace, manifests: string, stateDir: string): Promise<number> {
  const began = performance.now();
  const agent = startAgent({ namespace, manifests, stateDir });
  try {
    await agent.untilEnforced(1);
    return (performance.now() - began) / 1000;
  } finally {
    await agent.stop();
  }
}

async function inNamespace<T>(work: (node: Namespace) => Promise<T>): Promise<T> {
  const topology = await createTopology(addressPlan({ clients: 0 }));
  try {
    return await work(topology.node);
  } finally {
    await topology.close();
  }
}
