import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { NODE_NAME, THOUSAND_RULES } from '../generate/cluster.ts';
import { flowLines } from '../generate/flows.ts';
import { writeManifests } from '../generate/manifests.ts';
import { atMost, type Benchmark, figure, trials } from '../measure/figure.ts';
import { measuredRun, NODEWALL, type Run } from '../measure/process.ts';

const FLAGSHIP = join(import.meta.dirname, '..', '..', 'deploy', 'examples', 'flagship');
const FLOW = { direction: 'ingress', src: '10.0.0.7', dst: '192.168.10.11', protocol: 'tcp', dstPort: 6443 };

export const explainFlagship: Benchmark = {
  name: 'explain',
  title: 'explain, flagship',
  how: '`bin/nodewall explain --flow` on deploy/examples/flagship, from start of the process to its end.',
  async run(settings) {
    const argv = [
      NODEWALL,
      'explain',
      '--manifests',
      FLAGSHIP,
      '--node',
      'cp-1',
      '--flow',
      JSON.stringify(FLOW),
    ];
    const runs: Run[] = [];
    for (let i = 0; i < trials(settings, 15); i++) runs.push(await measuredRun(argv));
    return [
      figure('`bin/nodewall explain` on the flagship directory, whole process', 's', seconds(runs), {
        target: atMost(0.35),
        note: peakNote(runs),
      }),
    ];
  },
};

export const explainFlows: Benchmark = {
  name: 'flows',
  title: '10,000 flows',
  how: '`bin/nodewall explain --flows` with 10,000 flows against 100 YAML files of ten rules each; half of the flows match a rule, the others pass all 1,000.',
  async run(settings) {
    const manifests = join(settings.folder, 'manifests');
    const flows = join(settings.folder, 'flows.jsonl');
    await writeManifests(manifests, THOUSAND_RULES);
    await writeFile(flows, flowLines(THOUSAND_RULES, 10_000));
    const argv = [
      NODEWALL,
      'explain',
      '--manifests',
      manifests,
      '--node',
      NODE_NAME,
      '--flows',
      flows,
      '-o',
      'json',
    ];
    const runs: Run[] = [];
    for (let i = 0; i < trials(settings, 9); i++) runs.push(await measuredRun(argv));
    const asked = (await readFile(flows, 'utf8')).split('\n').length;
    if (runs.some(({ stdout }) => stdout.split('\n').length !== asked))
      throw new Error('not every flow was answered');
    return [
      figure('10,000 flows explained against 1,000 rules, whole process', 's', seconds(runs), {
        target: atMost(1.5),
        note: peakNote(runs),
      }),
    ];
  },
};

function seconds(runs: readonly Run[]): number[] {
  return runs.map(({ milliseconds }) => milliseconds / 1000);
}

function peakNote(runs: readonly Run[]): string {
  return `peak memory ${Math.round(Math.max(...runs.map(({ peak }) => peak)))} MB`;
}
