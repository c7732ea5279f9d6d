/**
 * Flux' own code applies and prunes folders before the webhook of a controller, on a real API
 * server: in any order, without retries. Its library kstatus judges objects.
 */

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { POLICY_PHASES, type PolicyPhase } from '../../apis/policy-status.ts';
import { run } from '../../build/programs/command.ts';
import { buildGoProgram } from '../../build/programs/go.ts';
import { type PolicyFacts, statusOf } from '../../controller/status/status.ts';
import { POLICY_OF_PHASE, rolledOutPolicy } from '../fake/policy-facts.ts';
import { until } from '../kernel/until.ts';
import { ALL_FILES, type FileName, GitopsBed, ORDERS } from './gitops-bed.ts';

const STATUS: Readonly<Record<PolicyPhase, string>> = {
  Pending: 'InProgress',
  Realizing: 'InProgress',
  Trying: 'InProgress',
  Realized: 'Current',
  NoNodes: 'Current',
  Failed: 'Failed',
  RolledBack: 'Failed',
  NotEnforced: 'Failed',
  Invalid: 'Failed',
  Disabled: 'Failed',
};

describe('Flux applies and prunes folders, on a real API server', function () {
  this.timeout(120_000);
  let bed: GitopsBed;
  let program: string;

  before(async function () {
    this.timeout(3_600_000);
    const source = join(import.meta.dirname, 'flux');
    program = await buildGoProgram({ name: 'flux', source, files: ['main.go'], takes: 'three minutes' });
    bed = await GitopsBed.start();
  });
  after(() => bed?.close());

  /** The changes, one line each; fails at the first refusal. */
  const flux = (command: 'apply' | 'prune', names: readonly FileName[]): Promise<readonly string[]> =>
    bed.run(program, [command], names);

  for (const [title, names] of ORDERS)
    it(`files ${title}: all are created at once, nothing changes again, and all are pruned at once`, async () => {
      const created = await flux('apply', names);
      assert.equal(created.length, names.length);
      assert.ok(
        created.every((line) => line.endsWith(' created')),
        created.join('\n'),
      );
      await bed.untilNothingWaits();
      const again = await flux('apply', names);
      assert.ok(
        again.every((line) => line.endsWith(' unchanged')),
        again.join('\n'),
      );
      assert.equal((await flux('prune', names)).length, names.length);
      assert.equal(await bed.objects(), '');
    });

  it('prunes what is in use before what uses it', async () => {
    await flux('apply', ALL_FILES);
    await bed.untilNothingWaits();
    await flux('prune', ['tier', 'child', 'parent']);
    await bed.untilInForceWithDeleted();
    await flux('apply', ALL_FILES);
    await bed.untilNothingWaits();
    await flux('prune', ALL_FILES);
    assert.equal(await bed.objects(), '');
  });

  /** The status of an object by kstatus. */
  async function judged(object: object): Promise<string> {
    const { code, stdout, stderr } = await run([program, 'status'], { stdin: JSON.stringify(object) });
    assert.equal(code, 0, stderr);
    return stdout.trim();
  }

  it('finds every phase current, in progress or failed', async () => {
    const policy = { apiVersion: 'nodewall.io/v1alpha1', kind: 'ClusterNetworkPolicy' };
    const judge = (facts: PolicyFacts, generation = facts.generation) =>
      judged({ ...policy, metadata: { name: 'p', generation }, status: statusOf(facts, null, new Date()) });
    for (const phase of POLICY_PHASES) {
      assert.equal(await judge(POLICY_OF_PHASE[phase]), STATUS[phase], phase);
      assert.equal(await judge(POLICY_OF_PHASE[phase], 5), 'InProgress', phase);
    }
    assert.equal(await judge(rolledOutPolicy({ state: 'Progressing' })), 'InProgress');
    assert.equal(await judge(rolledOutPolicy({ state: 'Undone' })), 'Failed');
    assert.equal(await judge(rolledOutPolicy({ state: 'Completed' })), 'Current');
  });

  it('finds objects of every kind of a cluster current', async () => {
    await flux('apply', ALL_FILES);
    await bed.untilNothingWaits();
    for (const name of ['ntier/late', 'ncg/all', 'ngr/access'])
      await until(name, async () => (await judged(await bed.cluster.get(name))) === 'Current');
    // No agent is there.
    assert.equal(await judged(await bed.cluster.get('ncnp/by-group')), 'InProgress');
    await flux('prune', ALL_FILES);
  });
});
