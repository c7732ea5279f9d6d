import assert from 'node:assert/strict';
import type { LeaseRequest } from '../../apis/heartbeat.ts';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import { type FakeKubeApi, fakeKubeApi } from '../../test/fake/kube-api.ts';
import { LEASE_TIMES } from '../kubeapi/lease/election.ts';
import { leaseStore } from '../kubeapi/lease/lease.ts';
import { HeartbeatService } from './heartbeat-service.ts';
import { type FromHeartbeats, LONGEST_SILENCE } from './messages.ts';

const ADDRESS = '198.51.100.1';
const SLOT = {
  gateway: 'g',
  slot: '0',
  node: 'a',
  epoch: 1,
  addresses: [ADDRESS],
  lease: 2_000,
  longest: 2_000,
};
const PATH = '/apis/coordination.k8s.io/v1/namespaces/nodewall-system/leases/nodewall-controller';

/** Lets everything that only waits for promises continue until it waits for time. */
async function settle(): Promise<void> {
  for (let i = 0; i < 3; i++) await new Promise(setImmediate);
}

describe('HeartbeatService', () => {
  let api: FakeKubeApi;
  let clock: FakeClock;

  beforeEach(() => {
    api = fakeKubeApi();
    clock = fakeClock();
  });

  function start(identity = 'x') {
    const sent: FromHeartbeats[] = [];
    const service = new HeartbeatService({
      data: { identity, times: LEASE_TIMES },
      store: leaseStore({
        request: api.request,
        annotations: () => ({}),
        namespace: 'nodewall-system',
        name: 'nodewall-controller',
      }),
      relay: { peers: () => [], send: () => Promise.reject(new Error('there is none')) },
      clock: Object.assign(clock, { date: () => new Date(clock.now()) }),
      random: () => 0,
      send: (message) => void sent.push(message),
    });
    const kinds = (): string[] => sent.splice(0).flatMap(({ kind }) => (kind === 'tick' ? [] : [kind]));
    let count = 0;
    const beat = (node = 'a'): LeaseRequest => ({ node, boot: 'b', sent: ++count, held: [], ready: [] });
    return { service, sent, kinds, beat };
  }

  const holder = (): string | undefined =>
    (api.objects.get(PATH)?.spec as { holderIdentity?: string } | undefined)?.holderIdentity;

  async function pass(milliseconds: number, each: () => void = () => {}): Promise<void> {
    for (let i = 0; i < milliseconds; i += 500) {
      each();
      clock.pass(500);
      await settle();
    }
  }

  /** A leader that has waited until it may grant. */
  async function leading() {
    const one = start();
    one.service.receive({ kind: 'elect' });
    await settle();
    one.service.receive({ kind: 'begin', term: 1, slots: [SLOT], leases: [2_000] });
    await pass(3_000, () => one.service.receive({ kind: 'alive' }));
    return one;
  }

  it('answers heartbeats, and renews the Lease, while the controller says nothing', async () => {
    const { service, kinds, beat } = await leading();
    kinds();
    for (let i = 0; i < 20; i++) {
      assert.equal(service.answerAsLeader(beat())?.grants.length, 1, `after ${i} s`);
      await pass(1_000);
    }
    assert.deepEqual(new Set(kinds()), new Set(['taken', 'renewed']));
  });

  it('leaves the Lease to others when the controller has not turned for long, and takes it again', async () => {
    const { service, kinds, sent, beat } = await leading();
    const standby = start('y');
    standby.service.receive({ kind: 'elect' });
    kinds();
    await pass(LONGEST_SILENCE + LEASE_TIMES.duration + 5_000, () => {
      standby.service.receive({ kind: 'alive' });
      // They never lead at one time.
      const both = [service, standby.service].map((one) => one.answerAsLeader(beat()) !== null);
      assert.ok(!both.every(Boolean));
    });
    assert.match(JSON.stringify(sent.find(({ kind }) => kind === 'failed')), /has not turned for 3\d s/);
    assert.equal(kinds().at(-1), 'leader');
    assert.equal(service.answerAsLeader(beat()), null);
    assert.equal(holder(), 'y');
    standby.service.receive({ kind: 'release' });
    await pass(5_000, () => service.receive({ kind: 'alive' }));
    assert.ok(kinds().includes('leading'));
  });

  it('grants nothing in a new term before the controller has decided in it', async () => {
    const { service, kinds, beat } = await leading();
    // The API server does not answer for longer than a leader may go on; then the Lease is its own.
    api.before = () => {
      throw new Error('down');
    };
    await pass(11_000, () => service.receive({ kind: 'alive' }));
    assert.equal(service.answerAsLeader(beat()), null);
    api.before = () => {};
    await pass(5_000, () => service.receive({ kind: 'alive' }));
    assert.deepEqual(
      kinds()
        .filter((kind) => kind === 'lost' || kind === 'leading')
        .slice(-2),
      ['lost', 'leading'],
    );
    assert.equal(service.answerAsLeader(beat()), null);
    // The controller decided this before it knew of the new term.
    service.receive({ kind: 'begin', term: 1, slots: [SLOT], leases: [] });
    assert.equal(service.answerAsLeader(beat()), null);
    service.receive({ kind: 'begin', term: 2, slots: [SLOT], leases: [] });
    assert.deepEqual(service.answerAsLeader(beat()), { grants: [] }, 'it waits for the leader before');
    await pass(3_000, () => service.receive({ kind: 'alive' }));
    assert.equal(service.answerAsLeader(beat())?.grants.length, 1);
  });

  it('grants nothing after a stop of the machine that outlasts the Lease', async () => {
    const { service, kinds, beat } = await leading();
    kinds();
    clock.pass(0);
    // No timer ran meanwhile.
    const stopped = clock.now() + 30_000;
    const { now } = clock;
    clock.now = () => Math.max(now(), stopped);
    assert.equal(service.answerAsLeader(beat()), null);
    service.receive({ kind: 'begin', term: 1, slots: [SLOT], leases: [] });
    assert.equal(service.answerAsLeader(beat()), null);
  });

  it('gives the Lease up for a controller that stops, and grants nothing any more', async () => {
    const { service, kinds, beat } = await leading();
    kinds();
    service.receive({ kind: 'release' });
    assert.equal(service.answerAsLeader(beat()), null);
    await pass(1_000);
    assert.deepEqual(kinds(), ['released']);
    assert.equal(holder(), '');
  });
});
