import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { kubeconfig } from '../cluster/cluster-files.ts';
import type { ClusterOfNodes } from '../cluster/cluster-of-nodes.ts';
import { toRunningAgent } from '../kernel/enforced-node.ts';
import { until } from '../kernel/until.ts';
import { relay } from '../netns/namespace.ts';
import { NODEWALL } from '../program.ts';
import { ROOT } from '../structure/source-file.ts';
import { answerOf, isLeading } from './controller-process.ts';

/** Where agents find whichever controller serves: what a Service is in a cluster. */
export const SERVICE_PORT = 8443;
export const WEBHOOK_PORT = 9443;
/** In a story with several. */
const MOST_REPLICAS = 4;
/** Milliseconds. */
const LIMIT = 90_000;

/** Where a server is, and whom its certificate is from. */
export interface Origin {
  readonly server: string;
  /** PEM. */
  readonly ca: string;
}

export interface Replica {
  readonly log: () => string;
  /** Status and text of /readyz. */
  ready(): Promise<string>;
  metrics(): Promise<string>;
  isRunning(): boolean;
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>;
}

export interface StoryControllersOptions {
  /** URL of the API server as the first controllers see it; default: the real one. */
  readonly apiServer?: (bed: ClusterOfNodes) => Promise<Origin>;
  readonly controllerOptions?: readonly string[];
  /** How many there are at first; default 1. */
  readonly replicas?: number;
  /** The folder of the first programs and CRDs; default: this checkout. */
  readonly release?: string;
}

/** The replica's first port, for agents; the next two are for webhooks and for health. */
export function replicaPort(replica: number): number {
  return 9001 + 10 * replica;
}

/** The program of a release, by its folder. */
export function programOf(release: string): string {
  return release === ROOT ? NODEWALL : join(release, 'bin/nodewall');
}

/** The controllers of a story, as processes on the control plane, and what is in front of them. */
export class StoryControllers {
  readonly replicas: Replica[] = [];
  readonly #bed: ClusterOfNodes;
  readonly #options: StoryControllersOptions;
  /** The latest lines of all processes. */
  readonly #logs: () => string;

  constructor(bed: ClusterOfNodes, options: StoryControllersOptions, logs: () => string) {
    this.#bed = bed;
    this.#options = options;
    this.#logs = logs;
  }

  /** Starts one more, of another release if its folder is given. */
  async add(release = this.#options.release ?? ROOT): Promise<Replica> {
    const { cluster, controlPlane, address } = this.#bed;
    const port = replicaPort(this.replicas.length);
    const api = (await this.#options.apiServer?.(this.#bed)) ?? { server: cluster.server, ca: cluster.ca };
    const token = await cluster.token('nodewall-system/nodewall-controller');
    const path = join(cluster.folder, `controller-${port}.kubeconfig`);
    await writeFile(path, kubeconfig({ ...api, token }), { mode: 0o600 });
    const args = [
      ...['--kubeconfig', path, '--listen', `${address}:${port}`, '--log-format', 'json'],
      ...['--webhook-listen', `${address}:${port + 1}`, '--metrics-listen', `127.0.0.1:${port + 2}`],
      // Earlier releases have no such option.
      ...(release === ROOT ? this.#peersOf(port) : []).map((peer) => `--peer=${address}:${peer}`),
      ...(this.#options.controllerOptions ?? []),
    ];
    const { log, isRunning, end } = toRunningAgent(
      controlPlane.spawn([programOf(release), 'controller', ...args]),
    );
    const health = { socketPath: join(cluster.folder, `health-${port}.socket`) };
    await relay(controlPlane, { path: health.socketPath }, { host: '127.0.0.1', port: port + 2 });
    const replica: Replica = {
      log,
      isRunning,
      end,
      ready: () => answerOf(health, '/readyz'),
      metrics: () => answerOf(health, '/metrics'),
    };
    this.replicas.push(replica);
    return replica;
  }

  /** See Story. */
  async routed(): Promise<Replica> {
    let ready: readonly number[] = [];
    let leading = -1;
    await until(
      'a controller leads',
      async () => {
        const isReady = await Promise.all(
          this.replicas.map(async (one) => one.isRunning() && (await one.ready()) === '200 ok'),
        );
        ready = [...isReady.keys()].filter((i) => isReady[i]);
        leading = (await Promise.all(this.replicas.map(leads))).indexOf(true);
        return leading !== -1 && this.replicas.every((one, i) => isReady[i] || !one.isRunning());
      },
      { limit: LIMIT, detail: this.#logs },
    );
    await this.#balance(ready);
    return this.replicas[leading] ?? assert.fail();
  }

  async end(): Promise<void> {
    for (const replica of this.replicas) await replica.end('SIGKILL');
  }

  /** As a Service does: each connection goes to any replica that is ready. */
  async #balance(ready: readonly number[]): Promise<void> {
    const { controlPlane, address } = this.#bed;
    const to = (offset: number): string => {
      const targets = ready.map((i, at) => `${at} : ${replicaPort(i) + offset}`);
      return `dnat ip to ${address} : numgen random mod ${ready.length} map { ${targets.join(', ')} }`;
    };
    const there = `ip daddr ${address} tcp dport`;
    const rules = `${there} ${SERVICE_PORT} ${to(0)}; ${there} ${WEBHOOK_PORT} ${to(1)}`;
    const stdin = `table inet service\ndelete table inet service\ntable inet service {
  chain prerouting { type nat hook prerouting priority dstnat; ${rules}; }
  chain output { type nat hook output priority -100; ${rules}; }
}\n`;
    await controlPlane.run(['nft', '-f', '-'], { stdin });
  }

  /** The ports of all other replicas that there may be. */
  #peersOf(port: number): number[] {
    const { replicas = 1, release } = this.#options;
    const most = replicas > 1 || release !== undefined ? MOST_REPLICAS : 1;
    return Array.from({ length: most }, (_, i) => replicaPort(i)).filter((other) => other !== port);
  }
}

async function leads(one: Replica): Promise<boolean> {
  return one.isRunning() && isLeading(await one.metrics());
}
