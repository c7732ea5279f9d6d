/**
 * Flux' own code applies and prunes folders before the webhook of a controller, on a real API
 * server: in any order, without retries.
 */

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { buildGoProgram } from '../../build/programs/go.ts';
import { ALL_FILES, type FileName, GitopsBed, ORDERS } from './gitops-bed.ts';

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
});
