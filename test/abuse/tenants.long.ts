/**
 * Ten tenants that edit as many EgressPolicies as they may have, for minutes, and the figures of
 * docs/egress-figures.md: tenant-bed.ts.
 */
import assert from 'node:assert/strict';
import { type Seen, TenantBed } from './tenant-bed.ts';

const MINUTES = Number(process.env.NODEWALL_MINUTES ?? 2);
/** Of deploy/kustomize/base/controller.yaml, and how much of it must stay free. */
const MEMORY = 3 * 2 ** 30;
const FREE = 0.5;

function toLine(name: string, seen: Seen): string {
  const { administrator, longestHeartbeat, longestAnswer, edits, memory } = seen;
  const at = (share: number): number =>
    Math.round(administrator[Math.floor(share * (administrator.length - 1))] ?? Number.NaN);
  return `${name}: ${edits} edits; an administrator's change ${at(0.5)} ms (worst ${at(1)}); heartbeat ${Math.round(longestHeartbeat)} ms at most; the thread that compiles ${Math.round(longestAnswer)} ms at most; ${Math.round(memory / (1 << 20))} MiB`;
}

describe('ten tenants that edit all of the EgressPolicies that they may have', function () {
  this.timeout(3_600_000);
  let bed: TenantBed;
  before(async () => {
    bed = await TenantBed.start({ tenants: 10, podsOfEach: 20 });
    await bed.fill();
  });
  after(() => bed?.close());

  it('end no lease, stream or leadership of others', async () => {
    const quiet = await bed.watch(30_000, 'configmaps');
    const edited = await bed.watch(MINUTES * 60_000, 'egresspolicies');
    process.stdout.write(`${toLine('ConfigMaps', quiet)}\n${toLine('EgressPolicies', edited)}\n`);
    for (const { leasesLost, unanswered, streamsEnded } of [quiet, edited])
      assert.deepEqual([leasesLost, unanswered, streamsEnded], [0, [], 0]);
    assert.ok(edited.memory < (1 - FREE) * MEMORY, `${edited.memory}`);
    const elections = bed.log.filter((line) => /"(elected leader|no longer leader)/.test(line));
    assert.equal(elections.length, 1, elections.join('\n'));
  });
});
