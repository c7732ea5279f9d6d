import assert from 'node:assert/strict';
import type { EgressGatewayStatus } from '../../../apis/egress/objects.ts';
import type { LeaseRequest } from '../../../apis/heartbeat.ts';
import { fakeGateway, fakeNode, fakePolicy } from '../../../test/fake/egress-objects.ts';
import { allocate } from '../allocation.ts';
import { LeaseGranter } from '../lease/lease-table.ts';
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

/** With its granter in the same process. */
class GrantedLeases extends Leases {
  readonly take: (request: LeaseRequest) => ReturnType<LeaseGranter['grant']>;

  constructor(clock: { now(): number }) {
    const granter = new LeaseGranter({
      clock,
      isLeader: () => true,
      answered: (taken) => this.heartbeatAnswered(taken),
    });
    super({ clock, granter, changed() {} });
    this.take = (request) => granter.grant(request);
  }
}

describe('Leases', () => {
  it('has a long lease in the status that was granted before the gateway got a shorter one', () => {
    let now = 0;
    const clock = { now: () => now };
    const leases = new GrantedLeases(clock);
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

  it('looks again when a node of source Node counts as silent that it has never heard', () => {
    let now = 0;
    const clock = { now: () => now };
    const leases = new GrantedLeases(clock);
    const nodes = ['a', 'b'].map((name) => fakeNode(name, ['192.0.2.1']));
    const one = allocate(fakeGateway('g', { source: 'Node' }), nodes, []);
    leases.begin([one]);
    assert.equal(leases.nextSilence(), 2_500);
    now = 4_000;
    const ready = [{ gateway: 'g', ready: true }];
    leases.take({ ...HEARTBEAT, node: 'b', ready, sent: now, held: [] });
    assert.deepEqual([leases.nextSilence(), leases.lack(one, 'a')], [1_000, null]);
    now += leases.nextSilence();
    assert.deepEqual(
      ['a', 'b'].map((node) => leases.lack(one, node)),
      ['AgentSilent', null],
    );
  });

  it('waits as a new leader for leases of a gateway that it has seen and that was deleted', () => {
    let now = 0;
    const clock = { now: () => now };
    const standby = () => new GrantedLeases(clock);
    const grantsAt = (leases: GrantedLeases, time: number): number => {
      now = time;
      return leases.take({ ...HEARTBEAT, sent: now, held: [] })?.grants.length ?? -1;
    };
    const [seen, started] = [standby(), standby()];
    seen.publish([allocation(10)]);
    now = 1_000;
    for (const leases of [seen, started]) {
      leases.publish([]);
      // Another gateway gets the address, and at once the leader is lost.
      leases.begin([allocation(2)]);
    }
    assert.deepEqual([grantsAt(started, 3_499), grantsAt(started, 3_500)], [0, 1]);
    assert.deepEqual([grantsAt(seen, 11_499), grantsAt(seen, 11_500)], [0, 1]);
  });
});
