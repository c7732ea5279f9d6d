import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { startBox } from '../../build/cluster/box.ts';
import type { RealCluster } from '../../build/cluster/cluster.ts';
import {
  CONTROLLERS,
  describeCluster,
  install,
  untilReady,
  writeCommands,
} from '../../build/cluster/install.ts';
import { run } from '../../build/programs/command.ts';
import { buildHelm } from '../cluster/build.ts';
import { parseMarkdown } from '../docs/markdown.ts';
import { until } from '../kernel/until.ts';
import { HelmRelease } from './helm-release.ts';
import { CLOSED_PORT } from './leaks.ts';
import { pods, setGate, untilTables } from './nodewall.ts';
import { Prometheus } from './prometheus.ts';

const PAGE = join(import.meta.dirname, '../../docs/cluster.md');
const HEADING = 'Scraped by Prometheus';
/** Milliseconds. */
const LIMIT = 180_000;

const INSTALLED: Readonly<Record<string, (cluster: RealCluster) => Promise<void>>> = {
  'by kustomize': install,
  'by the chart': async (cluster) => {
    await new HelmRelease(cluster, await buildHelm()).install();
    await untilReady(cluster);
  },
};

/** docs/cluster.md, followed with a real Prometheus. */
for (const [how, installed] of Object.entries(INSTALLED)) {
  describe(`nodewall, installed ${how}, scraped by Prometheus`, function () {
    this.timeout(600_000);
    let cluster: RealCluster;
    let prometheus: Prometheus;

    before(async function () {
      this.timeout(3_600_000);
      cluster = await startBox();
      await installed(cluster);
      prometheus = await Prometheus.start(cluster, await block('yaml'), async () => {
        const bin = await writeCommands(cluster);
        const { code, stderr } = await run(['bash', '-euo', 'pipefail', '-c', await block('sh')], {
          env: { ...process.env, PATH: `${bin}:${process.env.PATH}` },
        });
        assert.equal(code, 0, stderr);
      });
    });
    after(() => cluster?.close());
    afterEach(async function () {
      if (this.currentTest?.state === 'failed') process.stderr.write(`${await describeCluster(cluster)}\n`);
    });

    const onEachNode = (value: number) =>
      Object.fromEntries(cluster.nodes.map(({ name }): [string, number] => [name, value]));

    it('gives the metrics of each controller and of each agent', async () => {
      const controllers = (await pods(cluster, CONTROLLERS)).map(({ metadata }) => metadata.name);
      assert.equal(controllers.length, 2);
      await prometheus.until(
        'up{job="nodewall-controllers"}',
        Object.fromEntries(controllers.map((name): [string, number] => [name, 1])),
      );
      await prometheus.until(
        'count by (instance) (nodewall_node_up_to_date{job="nodewall-nodes"})',
        Object.fromEntries(controllers.map((name): [string, number] => [name, cluster.nodes.length])),
      );
      await prometheus.until('up{job="nodewall-agents"}', onEachNode(1));
      await prometheus.until('nodewall_agent_controller_connected', onEachNode(1));
    });

    it('shows what is in force on each node', async () => {
      await prometheus.until('nodewall_agent_rules', onEachNode(0));
      await setGate(cluster, true);
      await cluster.apply(CLOSED_PORT);
      await untilTables(cluster, 'the port is closed', (table) => table.includes('no-7000'));
      await prometheus.until('nodewall_agent_rules', onEachNode(1));
      const names = await prometheus.query('count by (__name__) ({__name__=~"nodewall_.*"})');
      process.stdout.write(`      ${names.length} metrics of nodewall\n`);
    });

    it('gives nothing to an account without the right, and says why', async () => {
      await cluster.remove('clusterrolebinding', 'nodewall-metrics');
      await prometheus.until('up{job="nodewall-agents"}', onEachNode(0));
      await until(
        'every target is refused',
        async () => (await prometheus.targets()).every(({ error }) => /403|401/.test(error)),
        { limit: LIMIT },
      );
    });
  });
}

/** The only one of its kind below the heading. */
async function block(kind: 'sh' | 'yaml'): Promise<string> {
  const sections = parseMarkdown('docs/cluster.md', await readFile(PAGE, 'utf8'));
  const fences = sections.filter(({ heading }) => heading === HEADING).flatMap((section) => section.fences);
  const [found, ...others] = fences.filter(({ info }) => info === kind);
  assert.ok(found !== undefined && others.length === 0, `one block of ${kind} below "${HEADING}"`);
  return kind === 'yaml' ? `global: {scrape_interval: 2s, scrape_timeout: 2s}\n${found.text}` : found.text;
}
