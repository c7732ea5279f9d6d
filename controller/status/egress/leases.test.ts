import assert from 'node:assert/strict';
import type { EgressGatewayStatus } from '../../../apis/egress/objects.ts';
import { fakeGateway, fakeNode, fakePolicy } from '../../../test/fake/egress-objects.ts';
import { allocate } from '../../egress/allocation.ts';
import { Leases } from './leases.ts';

const ADDRESS = '198.51.100.1';
const SLOT = { name: '0', node: 'a', epoch: 1, addresses: [ADDRESS] };
const HEARTBEAT = { node: 'a', boot: 'b', ready: [] };

function allocation(leaseSeconds: number) {
  const status: EgressGatewayStatus = {
    nodes: [{ name: 'a', ready: true }],
    slots: [SLOT],
    addresses: [{ address: ADDRESS, policy: '' }],
  };
  const failover = { heartbeatMilliseconds: 500, leaseSeconds, failback: false };
  const gateway = fakeGateway('g', { ranges: [ADDRESS], failover }, status);
  return allocate(gateway, [fakeNode('a', ['192.0.2.1'])], [fakePolicy('p')]);
}

describe('Leases', () => {
  it('has a long lease in the status that was granted before the gateway got a shorter one', () => {
    let now = 0;
    const clock = { now: () => now, after: () => () => {} };
    const leases = new Leases({ clock, isLeader: () => true, changed() {} });
    leases.begin([allocation(30)]);
    now = 40_000;
    const [grant] = leases.take({ ...HEARTBEAT, sent: now, held: [] })?.grants ?? [];
    assert.equal(grant?.milliseconds, 30_000);
    const short = allocation(2);
    leases.publish([short]);
    now += 500;
    assert.equal(leases.leaseSeconds(short, SLOT), 30);
    const written = { ...SLOT, leaseSeconds: 30 };
    now += 500;
    assert.equal(leases.leaseSeconds(short, written), 30, 'written once');
    const held = [{ gateway: 'g', slot: '0', epoch: 1, addresses: [ADDRESS], milliseconds: 1_500 }];
    now += 500;
    leases.take({ ...HEARTBEAT, sent: now, held });
    assert.equal(leases.leaseSeconds(short, written), null, 'its agent has shortened it');
  });
});
