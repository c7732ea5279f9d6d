import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { importImage, startBox, writeImage } from '../../build/cluster/box.ts';
import type { RealCluster } from '../../build/cluster/cluster.ts';
import {
  CONTROLLERS,
  describeCluster,
  install,
  untilReady,
  writeCommands,
} from '../../build/cluster/install.ts';
import { cached } from '../../build/programs/cache.ts';
import { run } from '../../build/programs/command.ts';
import { buildGoProgram } from '../../build/programs/go.ts';
import { buildHelm } from '../cluster/build.ts';
import { parseMarkdown } from '../docs/markdown.ts';
import { until } from '../kernel/until.ts';
import { PrometheusApi, type Target } from '../metrics/prometheus-api.ts';
import { HelmRelease } from './helm-release.ts';
import { CLOSED_PORT } from './leaks.ts';
import { pods, setGate, untilTables } from './nodewall.ts';

const NAMESPACE = 'monitoring';
/** Where the Deployment puts it. */
const NODE = 'worker-1';
const PORT = 9090;
/** Milliseconds. */
const LIMIT = 180_000;

/**
 * Path of its archive. Of the program's ways to discover targets it has the one of Kubernetes, and
 * it has no web pages.
 */
async function prometheusImage(): Promise<string> {
  const program = await buildGoProgram({
    name: 'prometheus',
    source: join(import.meta.dirname, 'prometheus'),
    program: 'github.com/prometheus/prometheus/cmd/prometheus',
    flags: ['-tags', 'remove_all_sd,enable_kubernetes_sd'],
    takes: 'five minutes',
  });
  // The program's path has the hash of what it is made of.
  const key = program.split('/').at(-2)?.replace(/^.*-/, '') ?? program;
  const folder = await cached('prometheusimage', key, async (fresh) => {
    const name = 'docker.io/library/prometheus:test';
    const entrypoint = ['/prometheus-server'];
    await writeImage(
      { name, files: { '/prometheus-server': program }, entrypoint },
      join(fresh, 'image.tar'),
    );
  });
  return join(folder, 'image.tar');
}

class Prometheus extends PrometheusApi {
  /**
   * Runs it with a configuration, once `prepare` has made what that needs in its namespace.
   *
   * @param configuration prometheus.yml
   */
  static async start(
    cluster: RealCluster,
    configuration: string,
    prepare: () => Promise<void>,
  ): Promise<Prometheus> {
    const manifest = await readFile(join(import.meta.dirname, 'manifests/prometheus.yaml'), 'utf8');
    await importImage(cluster.node(NODE), await prometheusImage());
    await cluster.apply(manifest);
    await cluster.apply(
      JSON.stringify({
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { name: 'prometheus', namespace: NAMESPACE },
        data: { 'prometheus.yml': configuration },
      }),
    );
    await prepare();
    const rollout = ['rollout', 'status', 'deployment/prometheus', `--timeout=${LIMIT / 1000}s`];
    await cluster.kubectlOutput([...rollout, `--namespace=${NAMESPACE}`]);
    const { items } = await cluster.get<{ items: { status: { podIP: string } }[] }>(
      'pods',
      `--namespace=${NAMESPACE}`,
    );
    const [pod] = items;
    if (pod === undefined) throw new Error('no pod of Prometheus');
    return new Prometheus(cluster.node(NODE).namespace, `${pod.status.podIP}:${PORT}`);
  }

  /** Until a query gives exactly these values, by the label `instance`. */
  async until(expression: string, wanted: Readonly<Record<string, number>>): Promise<void> {
    const text = (values: Readonly<Record<string, number>>): string =>
      JSON.stringify(Object.entries(values).sort(([a], [b]) => (a < b ? -1 : 1)));
    let last: Record<string, number> = {};
    let targets: Target[] = [];
    await until(
      `${expression} is ${JSON.stringify(wanted)}`,
      async () => {
        const samples = await this.query(expression);
        last = Object.fromEntries(samples.map(({ labels, value }) => [labels.instance ?? '', value]));
        targets = await this.targets();
        return text(last) === text(wanted);
      },
      { limit: LIMIT, detail: () => JSON.stringify({ last, targets }, null, 2) },
    );
  }
}

const PAGE = join(import.meta.dirname, '../../docs/cluster.md');
const HEADING = 'Scraped by Prometheus';

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
