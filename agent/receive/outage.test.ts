import assert from 'node:assert/strict';
import type { GateValue } from '../../apis/stream.ts';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import type { PolicyId } from './api-server.ts';
import { Outage, type OutageState } from './outage.ts';

const settled = async (): Promise<void> => {
  for (let i = 0; i < 5; i++) await new Promise(setImmediate);
};

describe('Outage', () => {
  let clock: FakeClock;
  let outage: Outage;
  let asked: string[];
  let said: (OutageState | string)[];
  /** The API server's answers; an Error: the request fails. */
  let answers: {
    pods: readonly string[] | Error;
    gate: GateValue | Error;
    deleted: readonly PolicyId[] | Error;
    apiService: 'removed' | 'absent' | 'available' | Error;
  };
  let random: number;
  let policies: readonly PolicyId[];

  beforeEach(() => {
    clock = fakeClock();
    asked = [];
    said = [];
    answers = { pods: ['10.1.0.1'], gate: 'unset', deleted: [], apiService: 'removed' };
    policies = [];
    random = 0.5;
    const answer = async <T>(what: string, value: T | Error): Promise<T> => {
      asked.push(what);
      await settled();
      if (value instanceof Error) throw value;
      return value;
    };
    outage = new Outage({
      clock,
      random: () => random,
      policies: () => policies,
      api: {
        controllerAddresses: () => answer('pods', answers.pods),
        gate: () => answer('gate', answers.gate),
        deletedPolicies: () => answer('policies', answers.deleted),
        removeApiService: () => answer('apiService', answers.apiService),
      },
      events: {
        seen: (seen) => void said.push(seen),
        failed: ({ message }) => void said.push(message),
        unregistered: () => void said.push('unregistered'),
      },
    });
  });
  afterEach(() => outage.close());

  async function pass(seconds: number): Promise<void> {
    for (let i = 0; i < seconds; i++) {
      clock.pass(1_000);
      await settled();
      await settled();
    }
  }
  const count = (what: string): number => asked.filter((one) => one === what).length;

  it('asks 5 s after the loss, then every 10 s, with 25 % jitter', async () => {
    outage.begin();
    await pass(4);
    assert.deepEqual(asked, []);
    outage.begin();
    await pass(1);
    assert.deepEqual(asked, ['pods', 'gate']);
    assert.deepEqual(said, [{ controllers: ['10.1.0.1'], gate: 'unset', deleted: null }]);
    await pass(9);
    assert.equal(count('pods'), 1);
    await pass(1);
    assert.equal(count('pods'), 2);
    outage.end();
    for (const [drawn, milliseconds] of [
      [0, 3_750],
      [1, 6_250],
    ] as const) {
      random = drawn;
      outage.begin();
      assert.deepEqual(clock.waiting(), [milliseconds]);
      outage.end();
    }
  });

  it('asks at every second time which policies are deleted, of those that the node has', async () => {
    policies = [{ apiGroup: 'nodewall.io', policy: 'p', uid: 'u' }];
    outage.begin();
    await pass(6);
    assert.deepEqual(said, [{ controllers: ['10.1.0.1'], gate: 'unset', deleted: [] }]);
    answers.deleted = policies;
    await pass(20);
    assert.equal(count('policies'), 2);
    assert.deepEqual(said.at(-1), { controllers: ['10.1.0.1'], gate: 'unset', deleted: policies });
    answers.deleted = new Error('forbidden');
    await pass(20);
    assert.deepEqual(said.at(-2), 'forbidden');
    assert.deepEqual(said.at(-1), { controllers: ['10.1.0.1'], gate: 'unset', deleted: null });
  });

  it('asks nothing while a controller answers, and ignores late answers', async () => {
    outage.begin();
    clock.pass(5_000);
    outage.end();
    await settled();
    await pass(120);
    assert.deepEqual(said, []);
    assert.equal(count('pods'), 1);
    assert.equal(count('apiService'), 0);
    assert.deepEqual(clock.waiting(), []);
  });

  it('deletes the APIService of an unavailable aggregated API once in an outage, after 45 to 60 s', async () => {
    outage.begin();
    await pass(52);
    assert.equal(count('apiService'), 0);
    await pass(10);
    assert.equal(count('apiService'), 1);
    assert.ok(said.includes('unregistered'));
    await pass(300);
    assert.equal(count('apiService'), 1);
    outage.end();
    outage.begin();
    await pass(70);
    assert.equal(count('apiService'), 2);
  });

  it('keeps an available APIService, and ignores a deleted one', async () => {
    answers.apiService = 'available';
    outage.begin();
    await pass(90);
    assert.ok(count('apiService') > 1);
    answers.apiService = 'absent';
    await pass(100);
    const asks = count('apiService');
    await pass(100);
    assert.equal(count('apiService'), asks);
    assert.ok(!said.includes('unregistered'));
  });

  it('reports once in an outage that the API server does not answer, and continues', async () => {
    answers = {
      pods: new Error('no route'),
      gate: new Error('no route'),
      deleted: [],
      apiService: new Error('no route'),
    };
    outage.begin();
    await pass(100);
    assert.deepEqual(said, ['no route']);
    assert.ok(count('apiService') > 1);
    answers = { pods: new Error('no route'), gate: false, deleted: [], apiService: 'removed' };
    await pass(10);
    assert.deepEqual(said.slice(1), [{ controllers: null, gate: false, deleted: null }, 'unregistered']);
    outage.end();
    outage.begin();
    await pass(6);
    assert.deepEqual(said.slice(3), ['no route', { controllers: null, gate: false, deleted: null }]);
  });
});
