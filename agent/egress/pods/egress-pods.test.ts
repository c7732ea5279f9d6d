import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import { emptyNodeState, type NodeState } from '../../../apis/compiled.ts';
import type { Log } from '../../../lib/process/log.ts';
import { fakeNodeEgress } from '../../../test/fake/egress-objects.ts';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { envelopeOf } from '../../apply/envelope.ts';
import { linkLocal } from '../render/tunnel.ts';
import type { Claim, ReceiveClaims } from './claim.ts';
import { EgressPods } from './egress-pods.ts';

const MAC = '0e:00:00:00:00:02';
const TAKES = [{ range: { first: 0n, last: 255n }, take: 1 }];
const EGRESS = fakeNodeEgress({
  peers: new Map([['n', { node: 'n', address: '192.0.2.2', mac: MAC }]]),
  served: new Map([['c', { nodes: ['n'], ipv4: TAKES, ipv6: [] }]]),
});
const claimOf = (i: number, id: string): Claim => ({ address: `10.0.0.${i}`, pod: `p${i}`, class: id });

/** A gateway. */
async function gateway() {
  const clock = fakeClock();
  const submitted: NodeState[] = [];
  const answered: Claim[] = [];
  let receive: ReceiveClaims = () => {};
  const pods = new EgressPods({
    clock,
    results: '/nonexistent',
    log: { info() {}, warn() {} } as unknown as Log,
    forget: async () => {},
    forgetTaken: async () => {},
    unreachable: () => [],
    next: ({ resolved }) => void submitted.push(resolved),
    async openClaims(_, received) {
      receive = received;
      return { send: (_to, _kind, claims) => void answered.push(...claims), close: async () => {} };
    },
  });
  await pods.start();
  pods.submit(envelopeOf({ ...emptyNodeState('gw'), egress: EGRESS }));
  submitted.length = 0;
  const claim = (claims: readonly Claim[]) => receive(linkLocal(MAC), { kind: 'claims', claims });
  return { clock, pods, submitted, answered, claim };
}

/** The node of pods that leave by their own node. */
async function source() {
  const forgotten: string[] = [];
  const submitted: NodeState[] = [];
  const pods = new EgressPods({
    clock: fakeClock(),
    results: '/nonexistent',
    log: { info() {}, warn() {} } as unknown as Log,
    forgetTaken: async () => {},
    unreachable: () => [],
    openClaims: async () => null,
    forget: async (addresses) => void forgotten.push(...addresses),
    next: ({ resolved }) => void submitted.push(resolved),
  });
  await pods.start();
  const named = new Map(['p', 'q'].map((pod) => [pod, null]));
  pods.submit(envelopeOf({ ...emptyNodeState('n'), egress: fakeNodeEgress({ pods: named }) }));
  const attachment = (pod: string) => ({
    pod,
    network: 'n',
    container: pod,
    interface: 'eth0',
    addresses: ['10.0.0.1'],
  });
  const signal = new AbortController().signal;
  const add = (pod: string) => pods.add(attachment(pod), signal);
  const remove = (pod: string) => pods.remove(attachment(pod));
  return { forgotten, submitted, pods, add, remove };
}

describe('EgressPods', () => {
  it('makes one state of many claims, and answers them when it is in force', async () => {
    const { clock, pods, submitted, answered, claim } = await gateway();
    for (let i = 0; i < 100; i++) claim([claimOf(i, 'c')]);
    clock.pass(2);
    const [state, ...more] = submitted;
    assert.equal(more.length, 0);
    assert.equal(state?.egress?.arrivals.size, 100);
    assert.deepEqual(answered, []);
    pods.enforced({ resolved: state ?? assert.fail() });
    assert.equal(answered.length, 100);
    await pods.close();
  });

  it('ends a claim that is not repeated, though nothing else happens', async () => {
    const { clock, pods, submitted, claim } = await gateway();
    claim([claimOf(1, 'c')]);
    clock.pass(2);
    assert.equal(submitted.at(-1)?.egress?.arrivals.size, 1);
    clock.pass(59_000);
    assert.equal(submitted.at(-1)?.egress?.arrivals.size, 1);
    clock.pass(1_001);
    assert.equal(submitted.at(-1)?.egress?.arrivals.size, 0);
    assert.deepEqual(clock.waiting(), []);
    await pods.close();
  });

  it('ends the connections of a pod once the kernel begins no more of them, then steers the next', async () => {
    const { forgotten, submitted, pods, add, remove } = await source();
    const sources = () => [...(submitted.at(-1)?.egress?.sources ?? [])];
    void add('p');
    assert.deepEqual(sources(), [['10.0.0.1', null]]);
    pods.enforced({ resolved: submitted.at(-1) ?? assert.fail() });
    remove('p');
    void add('q');
    await null;
    assert.deepEqual([sources(), forgotten], [[['10.0.0.1', 'held']], []]);
    pods.enforced({ resolved: submitted.at(-1) ?? assert.fail() });
    assert.deepEqual([sources(), forgotten], [[['10.0.0.1', 'held']], ['10.0.0.1']]);
    await setImmediate();
    assert.deepEqual(sources(), [['10.0.0.1', null]]);
    await pods.close();
  });

  it('starts no pod by what is in force of an earlier one with its address', async () => {
    const { submitted, pods, add, remove } = await source();
    const started: string[] = [];
    const start = (pod: string) => void add(pod).then(() => started.push(pod));
    const inForce = async (): Promise<void> => {
      pods.enforced({ resolved: submitted.at(-1) ?? assert.fail() });
      await setImmediate();
    };
    start('p');
    await inForce();
    assert.deepEqual(started, ['p']);
    remove('p');
    start('q');
    await setImmediate();
    assert.deepEqual(started, ['p']);
    await inForce();
    assert.deepEqual(started, ['p']);
    await inForce();
    assert.deepEqual(started, ['p', 'q']);
    await pods.close();
  });

  it('keeps no pod from starting once the gate is off', async () => {
    const { pods } = await gateway();
    const pod = { pod: 'p', network: 'n', container: 'c', interface: 'eth0', addresses: ['10.0.0.1'] };
    let isStarted = false;
    const started = pods.add(pod, new AbortController().signal).then(() => {
      isStarted = true;
    });
    await null;
    assert.deepEqual([isStarted, pods.isReady(pod)], [false, false]);
    const state = emptyNodeState('gw');
    pods.submit(envelopeOf(state));
    pods.enforced({ resolved: state });
    await started;
    assert.ok(pods.isReady(pod));
    await pods.close();
  });

  it('forgets who asked for what it cannot give', async () => {
    const { clock, pods, submitted, answered, claim } = await gateway();
    claim([claimOf(1, 'unknown')]);
    clock.pass(2);
    clock.pass(3_000);
    claim([claimOf(2, 'c')]);
    clock.pass(2);
    pods.enforced({ resolved: submitted.at(-1) ?? assert.fail() });
    const served = new Map([...EGRESS.served, ['unknown', { nodes: ['n'], ipv4: [], ipv6: [] }]]);
    pods.enforced({ resolved: { ...emptyNodeState('gw'), egress: { ...EGRESS, served } } });
    assert.deepEqual(answered, [claimOf(2, 'c')]);
    await pods.close();
  });
});
