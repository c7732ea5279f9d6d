/**
 * A real API server, controllers as processes, and agents that are simulated in this process: each
 * follows its view as an agent does, and reports what it is told to report.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { get } from 'node:http';
import { Agent, request as httpsRequest, type RequestOptions } from 'node:https';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { type Fold, fold } from '../../agent/receive/fold.ts';
import type { NodeState } from '../../apis/compiled.ts';
import type { RolloutStatus } from '../../apis/rollout.ts';
import { NODE_VIEWS_PATH, type NodeReport } from '../../apis/stream.ts';
import { NODEWALL } from '../cli/command.ts';
import { startCluster, type TestCluster } from '../cluster/cluster.ts';
import { freePorts } from '../cluster/ports.ts';
import { until } from '../kernel/until.ts';
import { ROOT } from '../structure/source-file.ts';

const FILES = ['crds/tier', 'crds/clustergroup', 'crds/clusternetworkpolicy', 'rbac', 'gate/on'];
const SERVICE = 'nodewall-controller.nodewall-system.svc';

export interface RolloutBed {
  readonly cluster: TestCluster;
  readonly nodes: readonly SimulatedAgent[];
  startController(index: number): Promise<RunningController>;
  /** The controller that leads; waits for one. */
  leader(): Promise<RunningController>;
  rollout(policy: string): Promise<RolloutStatus | undefined>;
  annotate(policy: string, command: string): Promise<void>;
  logs(): string;
  close(): Promise<void>;
}

export interface RunningController {
  readonly index: number;
  readonly process: ChildProcess;
  readonly log: string[];
  leads(): Promise<boolean>;
  kill(signal: NodeJS.Signals): Promise<void>;
}

export interface BedOptions {
  /** By name, the labels. */
  readonly nodes: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly controllers: number;
  /** The controllers' configuration, YAML. */
  readonly config?: string;
}

export async function startRolloutBed({
  nodes: labels,
  controllers,
  config = '{}',
}: BedOptions): Promise<RolloutBed> {
  const cluster = await startCluster();
  const ports = await freePorts(controllers);
  const metrics = await freePorts(controllers);
  const running = new Map<number, RunningController>();
  const logs = (): string =>
    [...running.values()].map(({ log }) => log.slice(-30).join('\n')).join('\n---\n');
  for (const name of FILES) await cluster.apply(await readFile(join(ROOT, `deploy/${name}.yaml`), 'utf8'));
  await cluster.established();
  const objects = Object.entries(labels).map(([name, own]) =>
    JSON.stringify({ apiVersion: 'v1', kind: 'Node', metadata: { name, labels: own } }),
  );
  await cluster.apply(objects.join('\n---\n'));
  const token = await cluster.token('nodewall-system/nodewall-controller');
  const kubeconfig = await cluster.kubeconfigFor('controller', { token });
  const configFile = join(cluster.folder, 'controller.yaml');
  await writeFile(configFile, config, { mode: 0o600 });
  const nodes: SimulatedAgent[] = [];

  async function got(index: number, path: string): Promise<string> {
    const request = get({ host: '127.0.0.1', port: metrics[index], path, agent: false });
    const answered = await once(request, 'response').catch(() => null);
    return answered === null ? '' : `${answered[0].statusCode} ${(await text(answered[0])).trim()}`;
  }

  async function startController(index: number): Promise<RunningController> {
    const peers = ports.flatMap((port, i) => (i === index ? [] : `--peer=127.0.0.1:${port}`));
    const args = [
      ...[
        'controller',
        '--kubeconfig',
        kubeconfig,
        '--listen',
        `127.0.0.1:${ports[index]}`,
        '--log-format',
        'json',
        '--config',
        configFile,
      ],
      ...['--metrics-listen', `127.0.0.1:${metrics[index]}`, ...peers],
    ];
    const child = spawn(NODEWALL, args, { stdio: ['ignore', 'inherit', 'pipe'] });
    const log: string[] = [];
    createInterface({ input: child.stderr }).on('line', (line) => void log.push(line));
    const controller: RunningController = {
      index,
      process: child,
      log,
      leads: async () => /^nodewall_controller_leader 1$/m.test(await got(index, '/metrics')),
      async kill(signal) {
        running.delete(index);
        if (child.exitCode !== null || child.signalCode !== null) return;
        const ended = once(child, 'exit');
        child.kill(signal);
        await ended;
      },
    };
    running.set(index, controller);
    const isReady = async (): Promise<boolean> => (await got(index, '/readyz')) === '200 ok';
    await until('the controller serves', isReady, { detail: logs });
    return controller;
  }

  for (let index = 0; index < controllers; index++) await startController(index);
  const { data } = await cluster.get<{ data: Record<string, string> }>(
    'configmap',
    'nodewall-ca',
    '--namespace=nodewall-system',
  );
  const connection = {
    ca: data['ca.crt'] ?? '',
    ports: () => [...running.keys()].map((index) => ports[index] ?? 0),
  };
  for (const name of Object.keys(labels)) {
    const bound = { boundNode: name, audiences: ['nodewall-controller'] };
    const own = await cluster.token('nodewall-system/nodewall-agent', bound);
    nodes.push(new SimulatedAgent(name, { ...connection, token: own }));
  }

  return {
    cluster,
    nodes,
    startController,
    logs,
    async leader() {
      let found: RunningController | undefined;
      await until(
        'a controller leads',
        async () => {
          for (const one of running.values()) if (await one.leads()) found = one;
          return found !== undefined;
        },
        { detail: logs },
      );
      return found as RunningController;
    },
    async rollout(policy) {
      const { status } = await cluster.get<{ status?: { rollout?: RolloutStatus } }>(
        'clusternetworkpolicies.nodewall.io',
        policy,
      );
      return status?.rollout;
    },
    async annotate(policy, command) {
      const args = ['annotate', '--overwrite', 'ncnp', policy, `nodewall.io/rollout=${command}`];
      const { code, stderr } = await cluster.kubectl(args);
      if (code !== 0) throw new Error(stderr);
    },
    async close() {
      for (const one of nodes) one.stop();
      for (const one of [...running.values()]) await one.kill('SIGKILL');
      await cluster.close();
    },
  };
}

interface Connection {
  readonly ca: string;
  readonly token: string;
  readonly ports: () => readonly number[];
}

/** Follows the view of a node at any of the controllers, and reports each state as in force. */
export class SimulatedAgent {
  readonly name: string;
  readonly #connection: Connection;
  readonly #fold: Fold;
  readonly #http = new Agent({ keepAlive: true, maxSockets: 2 });
  #revision: string | null = null;
  #answer: IncomingMessage | null = null;
  #isRunning = false;
  /** Whether it reports that it cannot enforce generations from this one on. */
  failsFrom = Number.POSITIVE_INFINITY;
  /** The generations of each policy that it was to enforce, one after the other; 0: none. */
  readonly history = new Map<string, number[]>();
  /** Called after each state. */
  enforced: (state: NodeState) => void = () => undefined;

  constructor(name: string, connection: Connection) {
    this.name = name;
    this.#connection = connection;
    this.#fold = fold(name);
  }

  start(): void {
    this.#isRunning = true;
    void this.#run();
  }

  stop(): void {
    this.#isRunning = false;
    this.#answer?.destroy();
    this.#http.destroy();
  }

  /** The generation of the policy that it enforces; 0: none. */
  generation(policy: string): number {
    return this.history.get(policy)?.at(-1) ?? 0;
  }

  async #run(): Promise<void> {
    for (let i = 0; this.#isRunning; i++) {
      const ports = this.#connection.ports();
      const port = ports[(i + this.name.length) % Math.max(1, ports.length)] ?? 0;
      await this.#follow(port).catch(() => undefined);
      await pause(50);
    }
  }

  async #follow(port: number): Promise<void> {
    const query = new URLSearchParams({ watch: 'true', fieldSelector: `metadata.name=${this.name}` });
    const held = this.#fold.held();
    if (this.#revision !== null) query.set('resourceVersion', this.#revision);
    const path = `${NODE_VIEWS_PATH}?${query}`;
    const answer = await this.#ask(port, { path, method: held === null ? 'GET' : 'POST' }, held ?? undefined);
    this.#answer = answer;
    if (answer.statusCode !== 200) return void answer.resume();
    this.#fold.begin(this.#revision !== null);
    for await (const line of createInterface({ input: answer })) {
      const folded = this.#fold.take(JSON.parse(line));
      if (folded === null) continue;
      this.#revision = folded.revision;
      this.#note(folded.state);
      void this.#report(port, folded.state, folded.revision).catch(() => undefined);
    }
  }

  #note(state: NodeState): void {
    const now = new Map(state.rules.map(({ source }) => [source.policy, source.generation]));
    for (const policy of new Set([...this.history.keys(), ...now.keys()])) {
      const list = this.history.get(policy) ?? [];
      const generation = now.get(policy) ?? 0;
      if (list.at(-1) !== generation) list.push(generation);
      this.history.set(policy, list);
    }
    this.enforced(state);
  }

  async #report(port: number, { rules }: NodeState, revision: string): Promise<void> {
    const failing = rules.filter(({ source }) => source.generation >= this.failsFrom);
    const report: NodeReport = {
      node: this.name,
      revision,
      enforced: revision,
      enabled: true,
      failing: failing.map(({ source: { apiGroup, policy, generation, rule } }) => {
        return { apiGroup, policy, generation, rule, reason: 'no such file or directory' };
      }),
      policies: new Set(rules.map(({ source }) => source.policy)).size,
      hostAddresses: [],
      version: '0.1.0',
      dataplane: 'nftables',
      time: new Date().toISOString(),
    };
    const answer = await this.#ask(
      port,
      { path: `${NODE_VIEWS_PATH}/${this.name}/status`, method: 'PUT' },
      report,
    );
    answer.resume();
  }

  async #ask(port: number, options: RequestOptions, body?: object): Promise<IncomingMessage> {
    const { ca, token } = this.#connection;
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const request = httpsRequest({
      ...{ host: '127.0.0.1', port, ca, servername: SERVICE, agent: this.#http, headers },
      ...options,
    });
    request.end(body === undefined ? undefined : JSON.stringify(body));
    const [answer] = await once(request, 'response');
    return answer;
  }
}
