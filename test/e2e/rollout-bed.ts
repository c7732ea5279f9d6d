/**
 * A real API server, controllers as processes,
 * and agents that are simulated in this process.
 */

import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { RolloutStatus } from '../../apis/rollout.ts';
import { startCluster, type TestCluster } from '../cluster/cluster.ts';
import { freePorts } from '../cluster/daemon.ts';
import { until } from '../kernel/until.ts';
import { ROOT } from '../structure/source-file.ts';
import { ControllerProcess } from './controller-process.ts';
import { controllerKubeconfig, install } from './installed.ts';
import { type Place, type SimulatedAgent, simulatedAgents } from './simulated-agent.ts';

export interface RolloutBed {
  readonly cluster: TestCluster;
  readonly nodes: readonly SimulatedAgent[];
  startController(index: number): Promise<ControllerProcess>;
  /** The controller that leads; waits for one. */
  leader(): Promise<Leader>;
  /** Ends a controller that was started. */
  end(index: number, signal: NodeJS.Signals): Promise<void>;
  rollout(policy: string): Promise<RolloutStatus | undefined>;
  annotate(policy: string, command: string): Promise<void>;
  logs(): string;
  close(): Promise<void>;
}

interface Leader {
  readonly index: number;
  readonly log: readonly string[];
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
  const running = new Map<number, ControllerProcess>();
  const logs = (): string =>
    [...running.values()].map(({ log }) => log.slice(-30).join('\n')).join('\n---\n');
  await install(cluster);
  await cluster.apply(await readFile(join(ROOT, 'deploy/gate/on.yaml'), 'utf8'));
  const objects = Object.entries(labels).map(([name, own]) =>
    JSON.stringify({ apiVersion: 'v1', kind: 'Node', metadata: { name, labels: own } }),
  );
  await cluster.apply(objects.join('\n---\n'));
  const kubeconfig = await controllerKubeconfig(cluster);
  const configFile = join(cluster.folder, 'controller.yaml');
  await writeFile(configFile, config, { mode: 0o600 });

  async function startController(index: number): Promise<ControllerProcess> {
    const port = ports[index] ?? 0;
    const peers = ports.filter((other) => other !== port);
    const options = ['--config', configFile];
    const controller = await ControllerProcess.start({ kubeconfig, port, peers, options });
    running.set(index, controller);
    await controller.untilReady(logs);
    return controller;
  }

  async function end(index: number, signal: NodeJS.Signals): Promise<void> {
    const one = running.get(index);
    running.delete(index);
    await one?.stop(signal);
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
      let found: Leader | undefined;
      await until(
        'a controller leads',
        async () => {
          for (const [index, one] of running) if (await one.leads()) found = { index, log: one.log };
          return found !== undefined;
        },
        { detail: logs },
      );
      return found ?? assert.fail();
    },
    end,
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
      for (const index of [...running.keys()]) await end(index, 'SIGKILL');
      await cluster.close();
    },
  };
}
