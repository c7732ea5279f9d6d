/** Tenants that have as many EgressPolicies as they may: tenant-bed.ts. */
import assert from 'node:assert/strict';
import { type Seen, TenantBed } from './tenant-bed.ts';

/** An administrator waits at most so many times as long as while the same is edited elsewhere. */
const LONGEST_WAIT = 3;
/** Other work of the machine may hit one of the two. */
const ROUNDS = 4;

const median = ({ administrator }: Seen): number =>
  administrator[Math.floor(administrator.length / 2)] ?? Number.NaN;

describe('tenants that edit all of the EgressPolicies that they may have', function () {
  this.timeout(600_000);
  let bed: TenantBed;
  before(async () => {
    bed = await TenantBed.start({ tenants: 3, podsOfEach: 4 });
    await bed.fill();
  });
  after(() => bed?.close());

  it('end no lease, stream or leadership of others, and delay no administrator for long', async () => {
    const ratios: number[] = [];
    while (ratios.length < ROUNDS && !ratios.some((ratio) => ratio <= LONGEST_WAIT)) {
      const quiet = await bed.watch(4_000, 'configmaps');
      const edited = await bed.watch(4_000, 'egresspolicies');
      assert.ok(
        edited.edits > 3 && edited.heartbeats > 3,
        `${edited.edits} edits, ${edited.heartbeats} heartbeats`,
      );
      for (const { leasesLost, unanswered, streamsEnded } of [quiet, edited])
        assert.deepEqual([leasesLost, unanswered, streamsEnded], [0, [], 0]);
      ratios.push(median(edited) / median(quiet));
    }
    assert.ok(
      ratios.some((ratio) => ratio <= LONGEST_WAIT),
      `${ratios}`,
    );
    const elections = bed.log.filter((line) => /"(elected leader|no longer leader)/.test(line));
    assert.equal(elections.length, 1, elections.join('\n'));
  });
});
