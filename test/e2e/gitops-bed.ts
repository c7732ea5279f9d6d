import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { PolicyStatus } from '../../apis/policy-status.ts';
import { run } from '../../build/programs/command.ts';
import type { TestCluster } from '../cluster/cluster.ts';
import { until } from '../kernel/until.ts';
import { group, guardrail, OneController, policy } from './one-controller.ts';

const HEAD = 'apiVersion: nodewall.io/v1alpha1\n';
const FROM = 'action: Drop, from: [{group: all}], ports: [{port: 23}]';
const FILES = {
  policy: policy('by-tier', `tier: late, ingress: [{name: telnet, ${FROM}}]`),
  other: policy(
    'by-group',
    'ingress: [{name: some, action: Drop, from: [{group: office}], ports: [{port: 24}]}]',
  ),
  parent: `${HEAD}kind: ClusterGroup\nmetadata: {name: all}\nspec: {childGroups: [office]}`,
  child: group('office', '198.51.100.0/24'),
  guardrail: guardrail(
    'access',
    'mustAllow: [{name: ssh, direction: ingress, from: [{group: office}], ports: [{port: 22}]}]',
  ),
  tier: `${HEAD}kind: Tier\nmetadata: {name: late}\nspec: {priority: 20}`,
} as const;
export type FileName = keyof typeof FILES;
export const ALL_FILES = Object.keys(FILES) as FileName[];
/** Both policies. */
const POLICIES = ['by-tier', 'by-group'];

/** The files in several orders, with a title each. */
export const ORDERS = [
  ['as they are', ALL_FILES],
  ['reversed', ALL_FILES.toReversed()],
  ['rotated', [...ALL_FILES.slice(3), ...ALL_FILES.slice(0, 3)]],
] as const;

/** A folder of manifests, and a controller with its webhook before a real API server. */
export class GitopsBed {
  readonly cluster: TestCluster;
  readonly #controller: OneController;
  readonly #folder: string;

  private constructor(controller: OneController, folder: string) {
    this.cluster = controller.cluster;
    this.#controller = controller;
    this.#folder = folder;
  }

  static async start(): Promise<GitopsBed> {
    const controller = await OneController.start();
    await controller.untilAsked();
    const folder = await mkdtemp(join(tmpdir(), 'nodewall-gitops-'));
    for (const name of ALL_FILES) await writeFile(join(folder, `${name}.yaml`), FILES[name]);
    return new GitopsBed(controller, folder);
  }

  /** The lines that a program prints, which gets the kubeconfig, the arguments and the files. */
  async run(program: string, options: readonly string[], names: readonly FileName[]): Promise<string[]> {
    const files = names.map((name) => join(this.#folder, `${name}.yaml`));
    const { code, stdout, stderr } = await run([program, this.cluster.kubeconfig, ...options, ...files]);
    assert.equal(code, 0, `${stdout}${stderr}\n${this.#controller.log().slice(-4_000)}`);
    return stdout.trim() === '' ? [] : stdout.trim().split('\n');
  }

  /** Writes a file beside the manifests, and returns its path. */
  async write(name: string, text: string): Promise<string> {
    const path = join(this.#folder, name);
    await writeFile(path, text);
    return path;
  }

  async untilNothingWaits(): Promise<void> {
    for (const name of POLICIES)
      await until(`${name} waits for nothing`, async () => {
        const { status } = await this.cluster.get<{ status?: PolicyStatus }>(`ncnp/${name}`);
        return status !== undefined && status.problems === undefined;
      });
    await this.#controller.phase('access', 'Holds');
  }

  async untilInForceWithDeleted(): Promise<void> {
    await until('both policies go on with what was deleted', async () => {
      const { items } = await this.cluster.get<{ items: { status?: PolicyStatus }[] }>('ncnp');
      const isKept = ({ status }: (typeof items)[number]): boolean =>
        status?.conditions.some(({ type }) => type === 'ReferencesExist') === true;
      return items.length === POLICIES.length && items.every(isKept);
    });
  }

  /** The names of all objects of nodewall. */
  async objects(): Promise<string> {
    return (await this.cluster.kubectl(['get', 'ngr,ncnp,ncg,ntier', '-o', 'name'])).stdout;
  }

  async close(): Promise<void> {
    await this.#controller.close();
    await rm(this.#folder, { recursive: true });
  }
}
