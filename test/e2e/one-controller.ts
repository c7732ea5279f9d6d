import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { GuardrailStatus } from '../../apis/validate/guardrail.ts';
import { webhooksAt } from '../cluster/admin-api.ts';
import { startCluster, type TestCluster } from '../cluster/cluster.ts';
import { freePorts } from '../cluster/daemon.ts';
import { until } from '../kernel/until.ts';
import { ControllerProcess } from './controller-process.ts';
import { controllerKubeconfig, install } from './installed.ts';

const HEAD = 'apiVersion: nodewall.io/v1alpha1\n';
export const policy = (name: string, spec: string): string =>
  `${HEAD}kind: ClusterNetworkPolicy\nmetadata: {name: ${name}}\nspec: {priority: 5, appliedTo: [{nodeSelector: {}}], ${spec}}`;
export const group = (name: string, cidr: string): string =>
  `${HEAD}kind: ClusterGroup\nmetadata: {name: ${name}}\nspec: {ipBlocks: [{cidr: ${cidr}}]}`;
export const guardrail = (name: string, spec: string): string =>
  `${HEAD}kind: Guardrail\nmetadata: {name: ${name}}\nspec: {nodeSelector: {}, ${spec}}`;

/** Manifests of n1, n2 and n3. */
export const NODES = ['n1', 'n2', 'n3']
  .map(
    (name, i) =>
      `apiVersion: v1\nkind: Node\nmetadata: {name: ${name}, labels: {role: worker}}\nstatus: {addresses: [{type: InternalIP, address: 192.0.2.${i + 1}}]}`,
  )
  .join('\n---\n');

/**
 * The next one leads 8 s after one that was killed. By default that takes 15 s, for which
 * controllers/controller.test.ts, stories and the real cluster wait.
 */
const QUICK_ELECTION = { leaseDuration: 8, renewDeadline: 6, retryPeriod: 1 };

interface OneControllerOptions {
  /** As for --feature-gates. */
  readonly gates?: string;
  /** Where it is; default: an API server of its own, which close() ends. */
  readonly cluster?: TestCluster;
}

/** A real API server with nodewall's CRDs and rights, and one controller with its webhook. */
export class OneController {
  readonly cluster: TestCluster;
  readonly isOwnCluster: boolean;
  /** The webhook configurations, as they were applied. */
  readonly webhooks: string;
  readonly process: ControllerProcess;

  private constructor(options: Pick<OneController, 'cluster' | 'isOwnCluster' | 'webhooks' | 'process'>) {
    this.cluster = options.cluster;
    this.isOwnCluster = options.isOwnCluster;
    this.webhooks = options.webhooks;
    this.process = options.process;
  }

  /** {@link NODES} are there before the controller. */
  static async start(options: OneControllerOptions = {}): Promise<OneController> {
    const { gates = 'NodeNetworkPolicy=true', cluster = await startCluster() } = options;
    await install(cluster);
    await cluster.apply(NODES);
    const [port = 0] = await freePorts(1);
    const webhooks = await webhooksAt(`https://127.0.0.1:${port}`);
    await cluster.apply(webhooks);
    const config = join(cluster.folder, 'controller.yaml');
    await writeFile(config, JSON.stringify({ leaderElection: QUICK_ELECTION })); // JSON is YAML
    const process = await ControllerProcess.start({
      kubeconfig: await controllerKubeconfig(cluster),
      options: ['--webhook-listen', `127.0.0.1:${port}`, '--feature-gates', gates, '--config', config],
    });
    return new OneController({ cluster, webhooks, process, isOwnCluster: options.cluster === undefined });
  }

  /** What the controller wrote so far. */
  readonly log = (): string => this.process.log.join('\n');

  /** Waits until the webhook is asked about policies. */
  async untilAsked(): Promise<void> {
    const isAsked = async (): Promise<boolean> => {
      // The schema refuses it too, in other words.
      const passes = 'tier: baseline, ingress: [{name: r, action: Pass}]';
      const refusal = await this.cluster.apply(policy('p', passes)).then(() => '', String);
      return refusal.includes('denied the request');
    };
    await until('the webhook refuses', isAsked, { detail: this.log });
  }

  apply(manifest: string, ...options: string[]): ReturnType<TestCluster['kubectl']> {
    return this.cluster.kubectl(['apply', '--server-side', '--force-conflicts', ...options, '-f', '-'], {
      stdin: manifest,
    });
  }

  /** Resolves with a Guardrail's status as soon as it has the phase. */
  async phase(name: string, phase: GuardrailStatus['phase']): Promise<GuardrailStatus> {
    let found: GuardrailStatus | undefined;
    await until(
      `Guardrail ${name} is ${phase}`,
      async () => {
        ({ status: found } = await this.cluster.get<{ status?: GuardrailStatus }>(`ngr/${name}`));
        return found?.phase === phase;
      },
      { detail: () => `${JSON.stringify(found)}\n${this.log()}` },
    );
    return found ?? assert.fail('no status');
  }

  async close(): Promise<void> {
    await this.process.stop('SIGKILL');
    if (this.isOwnCluster) await this.cluster.close();
  }
}
