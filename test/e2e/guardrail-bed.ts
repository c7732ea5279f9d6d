import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { GuardrailStatus } from '../../apis/guardrail.ts';
import { NODEWALL } from '../cli/command.ts';
import { startCluster, type TestCluster } from '../cluster/cluster.ts';
import { freePorts } from '../cluster/ports.ts';
import { webhooksAt } from '../cluster/webhooks.ts';
import { until } from '../kernel/until.ts';
import { ROOT } from '../structure/source-file.ts';

const HEAD = 'apiVersion: nodewall.io/v1alpha1\n';
export const policy = (name: string, spec: string): string =>
  `${HEAD}kind: ClusterNetworkPolicy\nmetadata: {name: ${name}}\nspec: {priority: 5, appliedTo: [{nodeSelector: {}}], ${spec}}`;
export const guardrail = (name: string, spec: string): string =>
  `${HEAD}kind: Guardrail\nmetadata: {name: ${name}}\nspec: {nodeSelector: {}, ${spec}}`;

const NODES = ['n1', 'n2', 'n3'].map(
  (name, i) =>
    `apiVersion: v1\nkind: Node\nmetadata: {name: ${name}, labels: {role: worker}}\nstatus: {addresses: [{type: InternalIP, address: 192.0.2.${i + 1}}]}`,
);

/** A real API server, and a controller with its webhook. */
export class GuardrailBed {
  readonly cluster: TestCluster;
  readonly metricsPort: number;
  readonly #child: ChildProcess;
  readonly #log: string[];

  private constructor(cluster: TestCluster, child: ChildProcess, metricsPort: number, log: string[]) {
    this.cluster = cluster;
    this.#child = child;
    this.metricsPort = metricsPort;
    this.#log = log;
  }

  static async start(): Promise<GuardrailBed> {
    const cluster = await startCluster();
    const files = [`${ROOT}/deploy/crds`, `${ROOT}/deploy/rbac.yaml`].flatMap((path) => ['-f', path]);
    const installed = await cluster.kubectl(['apply', '--server-side', ...files]);
    assert.equal(installed.code, 0, installed.stderr);
    await cluster.established();
    await cluster.apply(NODES.join('\n---\n'));
    const [listen = 0, metrics = 0, webhook = 0] = await freePorts(3);
    await cluster.apply(await webhooksAt(`https://127.0.0.1:${webhook}`));
    const token = await cluster.token('nodewall-system/nodewall-controller');
    const options = {
      kubeconfig: await cluster.kubeconfigFor('controller', { token }),
      listen: `127.0.0.1:${listen}`,
      'metrics-listen': `127.0.0.1:${metrics}`,
      'webhook-listen': `127.0.0.1:${webhook}`,
      'feature-gates': 'NodeNetworkPolicy=true',
      'log-format': 'json',
    };
    const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
    const child = spawn(NODEWALL, ['controller', ...args], { stdio: ['ignore', 'inherit', 'pipe'] });
    if (child.stderr === null) throw new Error('no standard error');
    const log: string[] = [];
    createInterface({ input: child.stderr }).on('line', (line) => void log.push(line));
    const bed = new GuardrailBed(cluster, child, metrics, log);
    const isAsked = async (): Promise<boolean> => {
      const { stderr } = await bed.apply(policy('p', 'tier: nowhere'), '--dry-run=server');
      return stderr.includes('denied the request');
    };
    await until('the webhook refuses', isAsked, { detail: () => bed.log });
    return bed;
  }

  get log(): string {
    return this.#log.join('\n');
  }

  apply(manifest: string, ...options: string[]): ReturnType<TestCluster['kubectl']> {
    return this.cluster.kubectl(['apply', '--server-side', '--force-conflicts', ...options, '-f', '-'], {
      stdin: manifest,
    });
  }

  async status(name: string): Promise<GuardrailStatus | undefined> {
    const { status } = await this.cluster.get<{ status?: GuardrailStatus }>(`ngr/${name}`);
    return status;
  }

  /** Resolves with the status as soon as it has the phase. */
  async phase(name: string, phase: GuardrailStatus['phase']): Promise<GuardrailStatus> {
    let found: GuardrailStatus | undefined;
    await until(
      `Guardrail ${name} is ${phase}`,
      async () => {
        found = await this.status(name);
        return found?.phase === phase;
      },
      { detail: () => `${JSON.stringify(found)}\n${this.log}` },
    );
    if (found === undefined) throw new Error('no status');
    return found;
  }

  async close(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const ended = once(this.#child, 'exit');
      this.#child.kill('SIGKILL');
      await ended;
    }
    await this.cluster.close();
  }
}
