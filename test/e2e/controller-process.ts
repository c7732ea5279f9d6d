import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { get, type RequestOptions } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import type { TestCluster } from '../cluster/cluster.ts';
import { freePorts } from '../cluster/daemon.ts';
import { until } from '../kernel/until.ts';
import { NODEWALL } from '../program.ts';
import { ROOT } from '../structure/source-file.ts';

interface ControllerProcessOptions {
  /** Path. */
  readonly kubeconfig: string;
  /** Of loopback, where agents are served; default: a free one. */
  readonly port?: number;
  /** Those of the other controllers. */
  readonly peers?: readonly number[];
  /** More of its command line. */
  readonly options?: readonly string[];
}

/** `nodewall controller` on loopback. */
export class ControllerProcess {
  readonly port: number;
  readonly metricsPort: number;
  /** The lines that it wrote so far. */
  readonly log: string[] = [];
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, port: number, metricsPort: number) {
    this.port = port;
    this.metricsPort = metricsPort;
    this.#child = child;
  }

  static async start(options: ControllerProcessOptions): Promise<ControllerProcess> {
    const [free = 0, metrics = 0] = await freePorts(2);
    const { kubeconfig, port = free, peers = [], options: more = [] } = options;
    const args = [
      ...['--kubeconfig', kubeconfig, '--listen', `127.0.0.1:${port}`],
      ...['--metrics-listen', `127.0.0.1:${metrics}`, '--log-format', 'json'],
      ...peers.map((other) => `--peer=127.0.0.1:${other}`),
      ...more,
    ];
    const child = spawn(NODEWALL, ['controller', ...args], { stdio: ['ignore', 'inherit', 'pipe'] });
    const controller = new ControllerProcess(child, port, metrics);
    createInterface({ input: child.stderr }).on('line', (line) => void controller.log.push(line));
    return controller;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Status and text of /readyz. */
  ready(): Promise<string> {
    return answerOf({ host: '127.0.0.1', port: this.metricsPort }, '/readyz');
  }

  metrics(): Promise<string> {
    return answerOf({ host: '127.0.0.1', port: this.metricsPort }, '/metrics');
  }

  async leads(): Promise<boolean> {
    return isLeading(await this.metrics());
  }

  async untilReady(detail = () => this.log.join('\n')): Promise<void> {
    await until('it serves', async () => (await this.ready()) === '200 ok', { detail });
  }

  async untilLeading(limit = 60_000): Promise<void> {
    await until('it leads', () => this.leads(), { limit, detail: () => this.log.join('\n') });
  }

  /** Returns its exit status; null where a signal ended it. */
  async stop(signal: NodeJS.Signals): Promise<number | null> {
    if (this.isRunning()) {
      const ended = once(this.#child, 'exit');
      this.#child.kill(signal);
      await ended;
    }
    return this.#child.exitCode;
  }
}

/** Status and text of a GET; '' where nobody answers. */
export async function answerOf(place: RequestOptions, path: string): Promise<string> {
  try {
    const [response] = await once(get({ ...place, path, agent: false }), 'response');
    return `${response.statusCode} ${(await text(response)).trim()}`;
  } catch {
    return '';
  }
}

/** Whether a controller with these metrics leads. */
export function isLeading(metrics: string): boolean {
  return /^nodewall_controller_leader 1$/m.test(metrics);
}

type Cluster = Pick<TestCluster, 'get' | 'kubectl' | 'apply'>;

const CLUSTER_ROLE = 'nodewall-controller';

/** Takes a right of their ClusterRole away from the controllers. */
export async function withoutRight(cluster: Cluster, resource: string): Promise<void> {
  const role = await cluster.get<{ rules: { resources?: string[] }[] }>('clusterrole', CLUSTER_ROLE);
  const rules = role.rules.map((rule) => ({
    ...rule,
    ...(rule.resources && { resources: rule.resources.filter((one) => one !== resource) }),
  }));
  const kept = rules.filter(({ resources }) => resources === undefined || resources.length > 0);
  assert.notDeepEqual(kept, role.rules, resource);
  const patch = JSON.stringify({ rules: kept });
  const { code, stderr } = await cluster.kubectl([
    ...['patch', 'clusterrole', CLUSTER_ROLE, '--type=merge', '-p', patch],
  ]);
  assert.equal(code, 0, stderr);
}

/** Puts the rights of this version in place again. */
export async function withAllRights(cluster: Cluster): Promise<void> {
  await cluster.apply(await readFile(join(ROOT, 'deploy/rbac.yaml'), 'utf8'), { force: true });
}
