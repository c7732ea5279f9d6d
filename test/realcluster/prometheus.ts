/** A real Prometheus as a pod of the cluster. */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { importImage, writeImage } from '../../build/cluster/box.ts';
import type { RealCluster } from '../../build/cluster/cluster.ts';
import { cached } from '../../build/programs/cache.ts';
import { buildGoProgram } from '../../build/programs/go.ts';
import { until } from '../kernel/until.ts';
import { PrometheusApi, type Target } from '../metrics/prometheus-api.ts';

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

export class Prometheus extends PrometheusApi {
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
