import type { GuardrailStatus } from '../../apis/validate/guardrail.ts';
import type { TestCluster } from '../cluster/cluster.ts';
import { until } from '../kernel/until.ts';
import { type OneController, startOneController } from './one-controller.ts';

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

/** A real API server, and a controller with its webhook. */
export class GuardrailBed {
  readonly cluster: TestCluster;
  readonly metricsPort: number;
  readonly #controller: OneController;

  private constructor(controller: OneController) {
    this.cluster = controller.cluster;
    this.metricsPort = controller.metricsPort;
    this.#controller = controller;
  }

  static async start(): Promise<GuardrailBed> {
    return await GuardrailBed.of(await startOneController(NODES, 'NodeNetworkPolicy=true'));
  }

  /** Of a controller that {@link NODES} were there for. */
  static async of(controller: OneController): Promise<GuardrailBed> {
    const bed = new GuardrailBed(controller);
    const isAsked = async (): Promise<boolean> => {
      // The schema refuses it too, in other words.
      const passes = 'tier: baseline, ingress: [{name: r, action: Pass}]';
      const refusal = await bed.cluster.apply(policy('p', passes)).then(() => '', String);
      return refusal.includes('denied the request');
    };
    await until('the webhook refuses', isAsked, { detail: controller.log });
    return bed;
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
      { detail: () => `${JSON.stringify(found)}\n${this.#controller.log()}` },
    );
    if (found === undefined) throw new Error('no status');
    return found;
  }

  close(): Promise<void> {
    return this.#controller.close();
  }
}
