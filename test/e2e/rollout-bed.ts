/**
 * A real API server, controllers as processes,
 * and agents that are simulated in this process.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { get } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import type { RolloutStatus } from '../../apis/rollout.ts';
import { startCluster, type TestCluster } from '../cluster/cluster.ts';
import { freePorts } from '../cluster/daemon.ts';
import { until } from '../kernel/until.ts';
import { NODEWALL } from '../program.ts';
import { ROOT } from '../structure/source-file.ts';
import { type Place, type SimulatedAgent, simulatedAgents } from './simulated-agent.ts';

const FILES = ['crds/tier', 'crds/clustergroup', 'crds/clusternetworkpolicy', 'rbac', 'gate/on'];

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

interface BedOptions {
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
  const places = (): Place[] =>
    [...running.keys()].map((index) => ({ host: '127.0.0.1', port: ports[index] ?? 0 }));
  const nodes = await simulatedAgents(cluster, Object.keys(labels), places);

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
