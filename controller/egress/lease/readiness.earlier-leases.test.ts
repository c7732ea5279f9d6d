import assert from 'node:assert/strict';
import { fakeGateway } from '../../../test/fake/egress-objects.ts';
import { EarlierLeases } from './readiness.ts';

function gateway(name: string, leaseSeconds: number, extended?: number) {
  const slot = { name: '0', node: 'a', epoch: 1, addresses: [] };
  const slots = [extended === undefined ? slot : { ...slot, leaseSeconds: extended }];
  const failover = { heartbeatMilliseconds: 500, leaseSeconds, failback: false };
  return { gateway: fakeGateway(name, { failover }, { nodes: [], slots }) };
}

describe('EarlierLeases', () => {
  it('has that of a deleted gateway, and of one whose leases were longer, as long as they may last', () => {
    const leases = new EarlierLeases();
    leases.publish(0, [gateway('a', 10), gateway('b', 2, 30), gateway('c', 2)]);
    assert.deepEqual(leases.at(0), []);
    leases.publish(1_000, [gateway('b', 2), gateway('c', 3)]);
    assert.deepEqual(leases.at(1_000), [10_000, 30_000]);
    // Granted at 31,000 by a leader that is behind.
    assert.deepEqual(leases.at(41_499), [10_000, 30_000]);
    assert.deepEqual([leases.at(41_500), leases.at(61_500)], [[30_000], []]);
  });

  it('keeps the longest of a gateway that changes again', () => {
    const leases = new EarlierLeases();
    for (const [i, seconds] of [10, 4, 6, 2].entries()) leases.publish(i, [gateway('a', seconds)]);
    assert.deepEqual(leases.at(4), [10_000]);
    leases.publish(100_000, [gateway('a', 2)]);
    assert.deepEqual(leases.at(100_000), []);
  });
});
