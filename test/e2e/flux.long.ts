/**
 * Flux' own code applies and prunes folders before the webhook of a controller, on a real API
 * server: in any order, without retries.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { PolicyStatus } from '../../apis/policy-status.ts';
import { run } from '../cluster/command.ts';
import { buildGoProgram } from '../cluster/go-program.ts';
import { until } from '../kernel/until.ts';
import { GuardrailBed, group, guardrail, NODES, policy } from './guardrail-bed.ts';
import { type OneController, startOneController } from './one-controller.ts';

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
type Name = keyof typeof FILES;
const ALL = Object.keys(FILES) as Name[];

describe('Flux applies and prunes folders, on a real API server', function () {
  this.timeout(120_000);
  let controller: OneController;
  let bed: GuardrailBed;
  let program: string;
  let folder: string;

  before(async function () {
    this.timeout(3_600_000);
    const source = join(import.meta.dirname, 'flux');
    program = await buildGoProgram({ name: 'flux', source, files: ['main.go'], takes: 'three minutes' });
    controller = await startOneController(NODES, 'NodeNetworkPolicy=true');
    bed = await GuardrailBed.of(controller);
    folder = await mkdtemp(join(tmpdir(), 'nodewall-flux-'));
    for (const name of ALL) await writeFile(join(folder, `${name}.yaml`), FILES[name]);
  });
  after(async () => {
    await controller?.close();
    if (folder !== undefined) await rm(folder, { recursive: true });
  });

  /** The changes, one line each; an error ends with the first refusal. */
  async function flux(command: 'apply' | 'prune', names: readonly Name[]): Promise<readonly string[]> {
    const files = names.map((name) => join(folder, `${name}.yaml`));
    const { code, stdout, stderr } = await run([program, bed.cluster.kubeconfig, command, ...files]);
    assert.equal(code, 0, `${stderr}\n${controller.log().slice(-4_000)}`);
    return stdout.trim().split('\n');
  }

  async function untilNothingWaits(names: readonly string[]): Promise<void> {
    for (const name of names)
      await until(`${name} waits for nothing`, async () => {
        const { status } = await bed.cluster.get<{ status?: PolicyStatus }>(`ncnp/${name}`);
        return status !== undefined && status.problems === undefined;
      });
    await bed.phase('access', 'Holds');
  }

  const rotated = (by: number): Name[] => [...ALL.slice(by), ...ALL.slice(0, by)];
  for (const [title, names] of [
    ['as they are', ALL],
    ['reversed', ALL.toReversed()],
    ['rotated', rotated(3)],
  ] as const)
    it(`files ${title}: all are created at once, nothing waits, and nothing changes again`, async () => {
      const created = await flux('apply', names);
      assert.equal(created.length, ALL.length);
      assert.ok(
        created.every((line) => line.endsWith(' created')),
        created.join('\n'),
      );
      await untilNothingWaits(['by-tier', 'by-group']);
      const again = await flux('apply', names);
      assert.ok(
        again.every((line) => line.endsWith(' unchanged')),
        again.join('\n'),
      );
      assert.equal((await flux('prune', names)).length, ALL.length);
      assert.equal((await bed.cluster.kubectl(['get', 'ngr,ncnp,ncg,ntier', '-o', 'name'])).stdout, '');
    });

  it('prunes what is in use before what uses it', async () => {
    await flux('apply', ALL);
    await untilNothingWaits(['by-tier', 'by-group']);
    await flux('prune', ['tier', 'child', 'parent']);
    await until('both policies go on with what was deleted', async () => {
      const { items } = await bed.cluster.get<{ items: { status?: PolicyStatus }[] }>('ncnp');
      return items.every(({ status }) => status?.conditions.some(({ type }) => type === 'ReferencesExist'));
    });
    await flux('apply', ALL);
    await untilNothingWaits(['by-tier', 'by-group']);
    await flux('prune', ALL);
    assert.equal((await bed.cluster.kubectl(['get', 'ngr,ncnp,ncg,ntier', '-o', 'name'])).stdout, '');
  });
});
