/** A real Prometheus as a pod of the cluster. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cached } from '../cluster/cache.ts';
import { buildGoProgram } from '../cluster/go-program.ts';
import { until } from '../kernel/until.ts';
import type { RealCluster } from './cluster.ts';
import { importImage, writeImage } from './image-archive.ts';

const NAMESPACE = 'monitoring';
/** Where the Deployment puts it. */
const NODE = 'worker-1';
const PORT = 9090;
/** Milliseconds. */
const LIMIT = 180_000;

/** One series of an answer, with its last value. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface Target {
  readonly job: string;
  readonly instance: string;
  /** Empty where the last scrape had an answer of 200. */
  readonly error: string;
}

/**
 * Path of its archive. Of the program's ways to discover targets it has the one of Kubernetes, and
 * it has no web pages.
 */
export async function prometheusImage(): Promise<string> {
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

export class Prometheus {
  readonly #cluster: RealCluster;
  readonly #address: string;

  private constructor(cluster: RealCluster, address: string) {
    this.#cluster = cluster;
    this.#address = address;
  }

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
    return new Prometheus(cluster, pod.status.podIP);
  }

  /** The series that a query gives now. */
  async query(expression: string): Promise<Sample[]> {
    const { data } = await this.#ask<{ result: { metric: Sample['labels']; value: [number, string] }[] }>(
      `query?query=${encodeURIComponent(expression)}`,
    );
    return data.result.map(({ metric, value }) => ({ labels: metric, value: Number(value[1]) }));
  }

  async targets(): Promise<Target[]> {
    const { data } = await this.#ask<{
      activeTargets: { labels: { job: string; instance: string }; lastError: string }[];
    }>('targets?state=active');
    return data.activeTargets.map(({ labels, lastError }) => ({ ...labels, error: lastError }));
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

  async #ask<T>(path: string): Promise<{ data: T }> {
    const url = `http://${this.#address}:${PORT}/api/v1/${path}`;
    const program = 'process.stdout.write(await (await fetch(process.argv[1])).text())';
    const { namespace } = this.#cluster.node(NODE);
    const argv = [process.execPath, '--input-type=module', '--eval', program, url];
    return JSON.parse((await namespace.run(argv)).stdout);
  }
}
