import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { get } from 'node:http';
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
  /** Of loopback, where agents are served. */
  readonly port: number;
  /** Those of the other controllers. */
  readonly peers: readonly number[];
}

/** `nodewall controller` on loopback. */
export class ControllerProcess {
  readonly port: number;
  /** The lines that it wrote so far. */
  readonly log: string[] = [];
  readonly #child: ChildProcess;
  readonly #metrics: number;

  private constructor(child: ChildProcess, port: number, metrics: number) {
    this.port = port;
    this.#child = child;
    this.#metrics = metrics;
  }

  static async start({ kubeconfig, port, peers }: ControllerProcessOptions): Promise<ControllerProcess> {
    const [metrics = 0] = await freePorts(1);
    const options = { kubeconfig, listen: `127.0.0.1:${port}`, 'metrics-listen': `127.0.0.1:${metrics}` };
    const args = [
      ...Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]),
      ...peers.map((other) => `--peer=127.0.0.1:${other}`),
    ];
    const child = spawn(NODEWALL, ['controller', ...args, '--log-format', 'json'], {
      stdio: ['ignore', 'inherit', 'pipe'],
    });
    const controller = new ControllerProcess(child, port, metrics);
    createInterface({ input: child.stderr }).on('line', (line) => void controller.log.push(line));
    return controller;
  }

  isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Status and text of /readyz. */
  ready(): Promise<string> {
    return this.#got('/readyz');
  }

  async leads(): Promise<boolean> {
    return /^nodewall_controller_leader 1$/m.test(await this.#got('/metrics'));
  }

  async untilReady(): Promise<void> {
    const isReady = async (): Promise<boolean> => (await this.ready()) === '200 ok';
    await until('it serves', isReady, { detail: () => this.log.join('\n') });
  }

  async untilLeading(): Promise<void> {
    await until('it leads', () => this.leads(), { detail: () => this.log.join('\n') });
  }

  /** Returns its exit status. */
  async stop(signal: NodeJS.Signals): Promise<number | null> {
    const ended = once(this.#child, 'exit');
    this.#child.kill(signal);
    const [code] = await ended;
    return code;
  }

  async #got(path: string): Promise<string> {
    const request = get({ host: '127.0.0.1', port: this.#metrics, path, agent: false });
    const answered = await once(request, 'response').catch(() => null);
    return answered === null
      ? 'nobody listens'
      : `${answered[0].statusCode} ${(await text(answered[0])).trim()}`;
  }
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
