import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { WallClock } from '../../../lib/process/clock.ts';
import { type FakeClock, fakeClock } from '../../../test/fake/fake-clock.ts';
import { type FakeKubeApi, fakeKubeApi } from '../../../test/fake/kube-api.ts';
import { checkAsync } from '../../../test/properties/runs.ts';
import type { KubeApi } from '../kube-api.ts';
import { KubeError } from '../kube-error.ts';
import { Election, type ElectionEvents, LEASE_TIMES } from './election.ts';
import { type Annotations, type Lease, type LeaseStore, leaseStore } from './lease.ts';

const PATH = '/apis/coordination.k8s.io/v1/namespaces/nodewall-system/leases/nodewall-controller';

function storeOf(request: KubeApi, annotations: () => Annotations = () => ({})): LeaseStore {
  return leaseStore({ request, namespace: 'nodewall-system', name: 'nodewall-controller', annotations });
}

/** Lets everything that only waits for promises continue until it waits for time. */
async function settle(): Promise<void> {
  for (let i = 0; i < 3; i++) await new Promise(setImmediate);
}

describe('election', () => {
  let api: FakeKubeApi;
  let clock: FakeClock;
  let log: string[] = [];
  let annotations: Annotations = {};

  beforeEach(() => {
    api = fakeKubeApi();
    clock = fakeClock();
    log = [];
    annotations = {};
  });

  let wall = 0;

  function candidate(name: string, random = 0): Election {
    const say = (word: string, value: unknown): void => void log.push(`${name} ${word} ${value}`);
    return new Election({
      store: storeOf(api.request, () => annotations),
      identity: name,
      clock: Object.assign(clock, { date: () => new Date(clock.now() + wall) }),
      random: () => random,
      events: {
        leading: () => void log.push(`${name} leads`),
        lost: (reason) => say('lost', reason),
        leader: (identity) => say('sees', identity),
        failed: (error) => say('failed', (error as Error).message),
      },
    });
  }

  async function pass(seconds: number): Promise<void> {
    for (let i = 0; i < seconds * 4; i++) {
      clock.pass(250);
      await settle();
    }
  }

  const spec = (): Lease['spec'] => api.objects.get(PATH)?.spec as Lease['spec'];

  it('is won by the first candidate, which renews the Lease', async () => {
    const [a, b] = [candidate('a'), candidate('b')];
    a.start();
    await settle();
    b.start();
    await pass(60);
    assert.deepEqual(log, ['a sees a', 'a leads', 'b sees a']);
    assert.deepEqual([a.isLeader(), b.isLeader()], [true, false]);
    assert.equal(spec()?.holderIdentity, 'a');
    assert.equal(spec()?.leaseDurationSeconds, 15);
    assert.match(spec()?.renewTime ?? '', /^1970-01-01T00:0\d:\d\d\.\d{6}Z$/);
    await Promise.all([a.release(), b.release()]);
  });

  it('is not lost or won when the wall clock is stepped a day forward and back', async () => {
    const [a, b] = [candidate('a'), candidate('b')];
    a.start();
    await settle();
    b.start();
    for (const day of [86_400_000, -86_400_000, 0]) {
      wall = day;
      await pass(60);
      assert.deepEqual([a.isLeader(), b.isLeader()], [true, false], `${day}`);
    }
    assert.deepEqual(log, ['a sees a', 'a leads', 'b sees a']);
    await Promise.all([a.release(), b.release()]);
  });

  it('is won at once by a candidate that is asked to check', async () => {
    const [a, b] = [candidate('a'), candidate('b')];
    a.start();
    await settle();
    b.start();
    await settle();
    b.tryNow();
    await settle();
    assert.equal(b.isLeader(), false);
    await a.release();
    b.tryNow();
    await settle();
    assert.equal(b.isLeader(), true);
    await b.release();
  });

  it('writes its annotations and keeps those of others', async () => {
    const a = candidate('a');
    annotations = { x: '1' };
    a.start();
    await settle();
    const held = (): Lease => api.objects.get(PATH) as unknown as Lease;
    assert.deepEqual(held().metadata.annotations, { x: '1' });
    api.put(PATH, { ...held(), metadata: { ...held().metadata, annotations: { x: '1', y: '2' } } });
    annotations = { x: '3' };
    await pass(6);
    assert.deepEqual(held().metadata.annotations, { x: '3', y: '2' });
    await a.release();
    assert.deepEqual(held().metadata.annotations, { x: '3', y: '2' });
  });

  it('passes to another candidate at its next try after a release', async () => {
    const [a, b] = [candidate('a'), candidate('b')];
    a.start();
    await settle();
    b.start();
    await settle();
    await a.release();
    assert.equal(a.isLeader(), false);
    assert.equal(spec()?.holderIdentity, '');
    await pass(2);
    assert.equal(b.isLeader(), true);
    assert.equal(spec()?.leaseTransitions, 1);
    await b.release();
    // A released Lease is not reported as lost.
    assert.deepEqual(log, ['a sees a', 'a leads', 'b sees a', 'b sees ', 'b sees b', 'b leads']);
  });

  it('passes to another candidate 15 s after the last renewal of a dead leader', async () => {
    const dead = candidate('dead');
    dead.start();
    await settle();
    const b = candidate('b');
    b.start();
    await settle();
    api.before = ({ method, body }) => {
      const { holderIdentity } = (body as Lease | undefined)?.spec ?? {};
      if (method === 'PUT' && holderIdentity === 'dead')
        throw new KubeError('cut off', { reason: 'Unreachable' });
    };
    await pass(14);
    assert.equal(b.isLeader(), false);
    assert.ok(log.includes('dead lost the Lease could not be renewed in time'), log.join('\n'));
    await pass(3);
    assert.equal(b.isLeader(), true);
    await Promise.all([dead.release(), b.release()]);
  });

  it('stops leading by the clock alone, even if no timer runs', async () => {
    const a = candidate('a');
    a.start();
    await settle();
    assert.equal(a.isLeader(), true);
    const { now } = clock;
    Object.assign(clock, { now: () => now() + LEASE_TIMES.renewDeadline });
    assert.equal(a.isLeader(), false);
    await a.release();
  });

  it('is told again if the Lease is renewed late, before a timer has run', async () => {
    const a = candidate('a');
    a.start();
    await settle();
    const answered = Promise.withResolvers<void>();
    api.after = () => answered.promise;
    clock.pass(LEASE_TIMES.retry);
    await settle();
    const { now } = clock;
    Object.assign(clock, { now: () => now() + LEASE_TIMES.renewDeadline - 1_000 });
    assert.equal(a.isLeader(), false);
    answered.resolve();
    await settle();
    assert.equal(a.isLeader(), true);
    assert.deepEqual(log, ['a sees a', 'a leads', 'a lost the Lease was renewed too late', 'a leads']);
    await a.release();
  });

  it('is not won by another candidate while the Lease is deleted', async () => {
    const [a, b] = [candidate('a'), candidate('b')];
    a.start();
    await settle();
    b.start();
    await settle();
    api.objects.delete(PATH);
    b.tryNow();
    await settle();
    assert.deepEqual([b.isLeader(), spec()], [false, undefined]);
    await pass(20);
    assert.deepEqual([a.isLeader(), b.isLeader()], [true, false]);
    await a.release();
    await pass(2);
    assert.equal(b.isLeader(), true);
    await b.release();
  });

  it('is lost at once when another holder is written by hand', async () => {
    const a = candidate('a');
    a.start();
    await settle();
    api.put(PATH, { spec: { holderIdentity: 'b', leaseDurationSeconds: 15 } });
    await pass(2);
    assert.equal(a.isLeader(), false);
    assert.ok(log.includes('a lost b took the Lease'), log.join('\n'));
    await a.release();
    assert.equal(spec()?.holderIdentity, 'b');
  });

  it('continues after a lost response, and after the Lease was deleted', async () => {
    const a = candidate('a');
    a.start();
    await settle();
    api.after = () => {
      api.after = () => {};
      throw new KubeError('cut off', { reason: 'Unreachable' });
    };
    await pass(6);
    assert.equal(a.isLeader(), true);
    api.objects.delete(PATH);
    await pass(3);
    assert.equal(a.isLeader(), true);
    assert.deepEqual(log.slice(2), ['a failed cut off', 'a lost the Lease was deleted', 'a leads']);
    await a.release();
  });

  it('never has two leaders whatever is delayed, lost, paused or runs fast, and soon has one', async function () {
    this.timeout(120_000);
    await checkAsync(this, 60, FAULTS, simulate);
  });
});

interface Faults {
  readonly seed: number;
  readonly candidates: readonly { readonly rate: number; readonly offset: number }[];
  /**
   * Probabilities for a request: it is lost before it arrives; its answer is lost. Then its longest
   * delay.
   */
  readonly lossBefore: number;
  readonly lossAfter: number;
  readonly longestDelay: number;
  /** Probability for a candidate in one second: it is suspended for a while. */
  readonly pauses: number;
}

const FAULTS: fc.Arbitrary<Faults> = fc.record({
  seed: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
  candidates: fc.array(
    fc.record({ rate: fc.double({ min: 0.85, max: 1.15, noNaN: true }), offset: fc.nat(1_000_000) }),
    { minLength: 2, maxLength: 4 },
  ),
  lossBefore: fc.constantFrom(0, 0.1, 0.5),
  lossAfter: fc.constantFrom(0, 0.1, 0.5),
  longestDelay: fc.constantFrom(1, 500, 8_000),
  pauses: fc.constantFrom(0, 0.02, 0.1),
});

const FAULTY = 180_000;
const HEALTHY = 45_000;
const STEP = 250;

/**
 * Simulates, in virtual time, candidates with wrong clocks that are suspended at random, in a
 * network that loses and delays requests.
 */
async function simulate(faults: Faults): Promise<void> {
  const random = generator(faults.seed);
  const world = fakeClock();
  const api = fakeKubeApi();
  let isFaulty = true;
  const lost = (): never => {
    throw new KubeError('lost', { reason: 'Timeout' });
  };
  const wait = (milliseconds: number): Promise<void> =>
    new Promise((resolve) => void world.after(milliseconds, resolve));
  const delay = async (): Promise<void> => {
    if (isFaulty) await wait(random() * faults.longestDelay);
  };
  api.before = async () => {
    const isLost = isFaulty && random() < faults.lossBefore;
    await delay();
    if (isLost) lost();
  };
  api.after = async () => {
    await delay();
    if (isFaulty && random() < faults.lossAfter) lost();
  };
  const pausedUntil = faults.candidates.map(() => 0);
  const led = faults.candidates.map(() => false);
  const candidates = faults.candidates.map(({ rate, offset }, i) => {
    const clock: WallClock = {
      now: () => offset + world.now() * rate,
      after(milliseconds, callback) {
        let cancel = world.after(milliseconds / rate, run);
        // A timer that is due while the process is suspended fires when it continues.
        function run(): void {
          const rest = (pausedUntil[i] ?? 0) - world.now();
          if (rest > 0) cancel = world.after(rest, run);
          else callback();
        }
        return () => cancel();
      },
      date: () => new Date(offset),
    };
    const events: ElectionEvents = {
      leading: () => {
        led[i] = true;
      },
      lost: () => {
        led[i] = false;
      },
      leader: () => {},
      failed: () => {},
    };
    const store = storeOf(async <T>(request: Parameters<typeof api.request>[0]): Promise<T> => {
      const timeout = new Promise<never>((_, reject) => {
        clock.after(request.timeout ?? 0, () => reject(new KubeError('late', { reason: 'Timeout' })));
      });
      const answer = await Promise.race([api.request<T>(request), timeout]);
      const rest = (pausedUntil[i] ?? 0) - world.now();
      if (rest > 0) await wait(rest);
      return answer;
    });
    return new Election({ store, identity: `c${i}`, clock, random, events });
  });
  for (const candidate of candidates) candidate.start();
  for (let time = 0; time < FAULTY + HEALTHY; time += STEP) {
    isFaulty = time < FAULTY;
    for (const i of pausedUntil.keys()) {
      if (isFaulty && random() < (faults.pauses * STEP) / 1000)
        pausedUntil[i] = world.now() + random() * 40_000;
      if (!isFaulty) pausedUntil[i] = Math.min(pausedUntil[i] ?? 0, FAULTY);
    }
    world.pass(STEP);
    await settle();
    const leaders = candidates.filter((candidate) => candidate.isLeader());
    assert.ok(leaders.length <= 1, `${leaders.length} lead after ${time} ms`);
    for (const [i, candidate] of candidates.entries()) {
      assert.ok(!candidate.isLeader() || led[i], `c${i} leads and nobody was told`);
    }
  }
  assert.equal(candidates.filter((candidate) => candidate.isLeader()).length, 1, 'nobody leads in the end');
  const ends = Promise.all(candidates.map((candidate) => candidate.release()));
  world.pass(STEP);
  await settle();
  await ends;
}

/** mulberry32: a repeatable sequence of numbers from 0 to 1 for each seed. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), 1 | state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  };
}
