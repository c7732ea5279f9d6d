/**
 * Argo CD's own code synchronises a cluster with folders before the webhook of a controller, on a
 * real API server: with its dry run and its order, in any order of the files, without retries. Its
 * interpreter judges objects by the script of deploy/argocd.
 */

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { parse } from 'yaml';
import { POLICY_PHASES, type PolicyPhase } from '../../apis/policy-status.ts';
import { run } from '../../build/programs/command.ts';
import { buildGoProgram, findGo } from '../../build/programs/go.ts';
import { statusOf } from '../../controller/status/status.ts';
import { POLICY_OF_PHASE, rolledOutPolicy } from '../fake/policy-facts.ts';
import { readSource } from '../structure/source-file.ts';
import { ALL_FILES, type FileName, GitopsBed, ORDERS } from './gitops-bed.ts';

/** The version that go.mod of Argo's module asks for. */
const NEEDED = 1.26;
const HEALTH: Readonly<Record<PolicyPhase, string>> = {
  Pending: 'Progressing',
  Realizing: 'Progressing',
  Trying: 'Progressing',
  Realized: 'Healthy',
  NoNodes: 'Healthy',
  Failed: 'Degraded',
  RolledBack: 'Degraded',
  NotEnforced: 'Degraded',
  Invalid: 'Degraded',
  Disabled: 'Suspended',
};

describe('Argo CD synchronises a cluster with folders, on a real API server', function () {
  this.timeout(240_000);
  let bed: GitopsBed;
  let program: string;

  before(async function () {
    this.timeout(3_600_000);
    const { version } = await findGo();
    if (Number(/^go(\d+\.\d+)/.exec(version)?.[1]) < NEEDED) {
      process.stderr.write(`argo.long.ts needs Go ${NEEDED} for Argo CD's module; here is ${version}\n`);
      return this.skip();
    }
    const source = join(import.meta.dirname, 'argo');
    program = await buildGoProgram({ name: 'argo', source, files: ['main.go'], takes: 'ten minutes' });
    bed = await GitopsBed.start();
  });
  after(() => bed?.close());

  /** The results, one line each, with what is pruned; none may be a failure. */
  async function sync(names: readonly FileName[]): Promise<readonly string[]> {
    const lines = await bed.run(program, ['sync'], names);
    for (const line of lines) assert.match(line, /^\S+ (Synced|Pruned) /, lines.join('\n'));
    return lines;
  }

  for (const [title, names] of ORDERS)
    it(`files ${title}: all are synchronised at once, and pruned at once`, async () => {
      assert.equal((await sync(names)).length, names.length);
      await bed.untilNothingWaits();
      assert.equal((await sync(names)).length, names.length);
      const pruned = await sync([]);
      assert.equal(pruned.filter((line) => line.includes(' Pruned ')).length, names.length);
      assert.equal(await bed.objects(), '');
    });

  it('prunes what is in use before what uses it', async () => {
    await sync(ALL_FILES);
    await bed.untilNothingWaits();
    await sync(ALL_FILES.filter((name) => !['tier', 'child', 'parent'].includes(name)));
    await bed.untilInForceWithDeleted();
    await sync(ALL_FILES);
    await bed.untilNothingWaits();
    await sync([]);
    assert.equal(await bed.objects(), '');
  });

  /** The health of an object, as Argo CD has it. */
  async function health(object: object): Promise<unknown> {
    const file = await bed.write('health.lua', healthScript());
    const argv = [program, bed.cluster.kubeconfig, 'health', file];
    const { code, stdout, stderr } = await run(argv, { stdin: JSON.stringify(object) });
    assert.equal(code, 0, stderr);
    return JSON.parse(stdout).status;
  }

  it('finds every phase healthy or not', async () => {
    const now = new Date();
    for (const phase of POLICY_PHASES) {
      const status = statusOf(POLICY_OF_PHASE[phase], null, now);
      const { observedGeneration: generation } = status;
      assert.equal(await health({ metadata: { generation }, status }), HEALTH[phase], phase);
      assert.equal(await health({ metadata: { generation: generation + 1 }, status }), 'Progressing', phase);
    }
    const status = statusOf(rolledOutPolicy({ state: 'Undone' }), null, now);
    assert.equal(await health({ metadata: { generation: 4 }, status }), 'Degraded');
    assert.equal(await health({ metadata: { generation: 1 } }), 'Progressing');
    assert.equal(await health({ kind: 'ClusterGroup', metadata: { generation: 1 } }), 'Healthy');
  });

  it('finds a policy of the cluster progressing until its nodes have it', async () => {
    await sync(ALL_FILES);
    await bed.untilNothingWaits();
    assert.equal(await health(await bed.cluster.get('ncnp/by-group')), 'Progressing');
    await sync([]);
  });
});

function healthScript(): string {
  const { data } = parse(readSource('deploy/argocd/argocd-cm.yaml'));
  return parse(data['resource.customizations'])['nodewall.io/*']['health.lua'];
}
