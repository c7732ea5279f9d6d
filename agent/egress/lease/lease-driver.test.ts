import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import type { LeaseAnswer } from '../../../apis/heartbeat.ts';
import { type FakeClock, fakeClock } from '../../../test/fake/fake-clock.ts';
import { LeaseDriver, type LeaseDriverOptions } from './lease-driver.ts';
import type { FromLeaseThread, LeaseEvent } from './lease-state.ts';

const A = '192.0.2.1';
const SLOT = {
  gateway: 'pool',
  slot: '0',
  epoch: 1,
  addresses: [A],
  announce: 'L2',
  leaseMilliseconds: 2_000,
} as const;
const GRANT = { gateway: 'pool', slot: '0', epoch: 1, addresses: [A], milliseconds: 2_000 };
const KEY = '0 pool';
const VIEWED: LeaseEvent = {
  kind: 'viewed',
  view: { owned: [SLOT], candidacies: [{ gateway: 'pool', heartbeatMilliseconds: 500 }] },
};

describe('LeaseDriver', () => {
  let clock: FakeClock;
  let sent: FromLeaseThread[];
  let requests: number[];
  let answer: () => Promise<LeaseAnswer>;
  let renew: LeaseDriverOptions['live']['renew'];
  let driver: LeaseDriver;

  beforeEach(() => {
    [clock, sent, requests] = [fakeClock(), [], []];
    answer = async () => ({ grants: [GRANT] });
    renew = async () => [];
    driver = new LeaseDriver({
      async ask(request) {
        requests.push(request.sent);
        return await answer();
      },
      live: { renew: (...of) => renew(...of) },
      clock,
      send: (message) => sent.push(message),
      changed() {},
    });
    driver.receive({ kind: 'enforced', guarded: new Set([A]) });
  });

  async function started(): Promise<void> {
    driver.receive({ kind: 'read', alive: new Map() });
    driver.receive(VIEWED);
    await turn();
  }

  async function held(): Promise<void> {
    await started();
    driver.receive({ kind: 'taken', key: KEY, conflicts: [] });
    await turn();
    sent.splice(0);
  }

  it('sends no request before the kernel was read, and then with the time of sending', async () => {
    driver.receive(VIEWED);
    await turn();
    assert.deepEqual(requests, []);
    clock.pass(70);
    driver.receive({ kind: 'read', alive: new Map() });
    assert.deepEqual(requests, [70]);
  });

  it('asks the main thread to take what was granted, until the grant ends', async () => {
    await started();
    assert.deepEqual(sent, [
      { kind: 'take', key: KEY, addresses: [{ address: A, announce: 'L2' }], until: 2_000 },
    ]);
  });

  it('renews in its own thread, and says what was renewed', async () => {
    await held();
    const renewed: string[] = [];
    renew = async (renewals) => {
      renewed.push(...renewals.map(({ address }) => address));
      return [];
    };
    clock.pass(500);
    await turn();
    await turn();
    assert.deepEqual(renewed, [A]);
    assert.deepEqual(sent, [{ kind: 'renewed', renewals: [{ address: A, until: 2_500 }] }]);
  });

  it('says what has ended in the kernel to nobody as renewed, and takes it again', async () => {
    await held();
    renew = async () => [A];
    clock.pass(500);
    for (let i = 0; i < 3; i++) await turn();
    assert.deepEqual(sent[0], { kind: 'renewed', renewals: [] });
    assert.ok(sent.some(({ kind }) => kind === 'take' || kind === 'drop'));
  });

  it('goes on after a request and a renewal that fail', async () => {
    await held();
    const failing = async (): Promise<never> => {
      throw new Error('no route');
    };
    [renew, answer] = [failing, failing];
    clock.pass(500);
    await turn();
    answer = async () => ({ grants: [GRANT] });
    renew = async () => [];
    const before = requests.length;
    clock.pass(500);
    await turn();
    assert.ok(requests.length > before);
  });

  it('is released once nothing is alive, and says so once', async () => {
    await held();
    driver.receive({ kind: 'release' });
    assert.deepEqual(sent.splice(0), [{ kind: 'drop', key: KEY, addresses: [A] }]);
    driver.receive({ kind: 'dropped', key: KEY });
    driver.receive({ kind: 'health', unready: new Map(), unreachable: [] });
    assert.deepEqual(
      sent.filter(({ kind }) => kind === 'released'),
      [{ kind: 'released' }],
    );
  });

  it('is released at once where nothing began', () => {
    driver.receive({ kind: 'release' });
    assert.deepEqual(sent, [{ kind: 'released' }]);
  });

  it('ends with its extension, arms no timer and takes no event after it', async () => {
    await held();
    driver.receive({ kind: 'stop' });
    for (let i = 0; i < 100 && sent.at(-1)?.kind !== 'stopped'; i++) {
      clock.pass(50);
      await turn();
    }
    assert.deepEqual(sent.at(-1), { kind: 'stopped' });
    assert.deepEqual(clock.waiting(), []);
    const count = requests.length;
    driver.receive(VIEWED);
    await turn();
    assert.equal(requests.length, count);
  });
});
