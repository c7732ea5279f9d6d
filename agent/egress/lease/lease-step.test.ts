import assert from 'node:assert/strict';
import type { OwnedSlot } from '../../../apis/egress/node-egress.ts';
import type { LeaseGrant } from '../../../apis/heartbeat.ts';
import { INITIAL_LEASES, type LeaseEffect, type LeaseEvent, type LeaseState } from './lease-state.ts';
import { leaseStep } from './lease-step.ts';

const A = '192.0.2.1';
const B = '192.0.2.2';
const KEY = '0 pool';

function ownedSlot(epoch = 1, addresses: readonly string[] = [A]): OwnedSlot {
  return { gateway: 'pool', slot: '0', epoch, addresses, announce: 'L2', leaseMilliseconds: 2_000 };
}
function grant(epoch = 1, milliseconds = 2_000, addresses: readonly string[] = [A]): LeaseGrant {
  return { gateway: 'pool', slot: '0', epoch, addresses, milliseconds };
}
function viewed(...owned: OwnedSlot[]): LeaseEvent {
  return { kind: 'viewed', view: { owned, candidacies: [{ gateway: 'pool', heartbeatMilliseconds: 500 }] } };
}

/** One node; events are given by the test, times are milliseconds since its start. */
class Stepper {
  state: LeaseState = INITIAL_LEASES;
  readonly logs: string[] = [];
  /** Since the last `take`. */
  #effects: LeaseEffect[] = [];
  timer = Number.POSITIVE_INFINITY;

  constructor(alive: readonly (readonly [string, number])[] = []) {
    this.give({ kind: 'enforced', guarded: new Set([A, B]) }, 0);
    this.give({ kind: 'read', alive: new Map(alive) }, 0);
  }

  give(event: LeaseEvent, now: number): void {
    const { state, effects } = leaseStep(this.state, event, now);
    this.state = state;
    for (const effect of effects) {
      if (effect.kind === 'arm') this.timer = effect.at;
      else if (effect.kind === 'log') this.logs.push(effect.message);
      else this.#effects.push(effect);
    }
  }

  /** The effects since the last call. */
  take(): LeaseEffect[] {
    return this.#effects.splice(0);
  }

  kinds(): string[] {
    return this.take().map(({ kind }) => kind);
  }

  /** The slot is taken under a grant that was asked for at 0. */
  static held(): Stepper {
    const one = new Stepper();
    one.give(viewed(ownedSlot()), 0);
    one.give({ kind: 'answered', grants: [grant()] }, 10);
    one.give({ kind: 'taken', key: KEY, conflicts: [] }, 50);
    one.give({ kind: 'renewed', ended: [] }, 50);
    one.take();
    return one;
  }
}

const held = (milliseconds: number, addresses = [A]) => [
  { gateway: 'pool', slot: '0', epoch: 1, addresses, milliseconds },
];
const ready = [{ gateway: 'pool', ready: true }];

describe('leaseStep', () => {
  it('counts a grant from the moment of sending', () => {
    const one = new Stepper();
    one.give(viewed(ownedSlot()), 0);
    assert.deepEqual(one.take(), [{ kind: 'send', request: { held: [], ready } }]);
    one.give({ kind: 'answered', grants: [grant()] }, 400);
    const addresses = [{ address: A, announce: 'L2' }];
    assert.deepEqual(one.take().at(0), { kind: 'take', key: KEY, addresses, until: 2_000 });
    one.give({ kind: 'taken', key: KEY, conflicts: [] }, 450);
    assert.deepEqual(one.take().at(-1), { kind: 'renew', renewals: [{ address: A, until: 2_000 }] });
  });

  it('renews with each heartbeat, and names what may be alive', () => {
    const one = Stepper.held();
    assert.equal(one.timer, 500);
    one.give({ kind: 'timer' }, 500);
    assert.deepEqual(one.take(), [{ kind: 'send', request: { held: held(1_500), ready } }]);
    one.give({ kind: 'answered', grants: [grant()] }, 510);
    assert.deepEqual(one.take(), [{ kind: 'renew', renewals: [{ address: A, until: 2_500 }] }]);
  });

  it('asks each 10 ms for a slot that is its own, after 250 ms each 25, after 2 s with each heartbeat', () => {
    const one = new Stepper();
    one.give(viewed(ownedSlot()), 0);
    const sent = [0];
    for (let now = 0; now < 4_000; ) {
      one.give({ kind: 'answered', grants: [] }, now + 1);
      now = one.timer;
      one.take();
      one.give({ kind: 'timer' }, now);
      if (one.kinds().includes('send')) sent.push(now);
    }
    const waits = sent.map((at, i) => at - (sent[i - 1] ?? at));
    assert.deepEqual([...new Set(waits.slice(1, 25))], [10]);
    assert.deepEqual([...new Set(waits.filter((_, i) => i > 25 && (sent[i] ?? 0) <= 2_000))], [25]);
    assert.deepEqual(sent.slice(-3), [3_490, 3_990, 4_490]);
  });

  it('drops a slot that the stream takes away at once, and says so when that is done', () => {
    const one = Stepper.held();
    one.give(viewed(), 100);
    assert.deepEqual(one.take(), [{ kind: 'drop', key: KEY, addresses: [A] }]);
    one.give({ kind: 'dropped', key: KEY }, 110);
    assert.deepEqual(one.take(), [{ kind: 'send', request: { held: [], ready } }]);
  });

  it('sends one request at a time: what was dropped meanwhile is said right after the answer', () => {
    const one = Stepper.held();
    one.give({ kind: 'timer' }, 500);
    one.give(viewed(), 501);
    one.give({ kind: 'dropped', key: KEY }, 502);
    assert.deepEqual(one.kinds(), ['send', 'drop']);
    one.give({ kind: 'answered', grants: [grant()] }, 510);
    assert.deepEqual(one.take(), [{ kind: 'send', request: { held: [], ready } }]);
  });

  it('ignores grants of another epoch than the stream has, and addresses that are not granted', () => {
    const one = new Stepper();
    one.give(viewed(ownedSlot(2, [A, B])), 0);
    one.give({ kind: 'answered', grants: [grant(1), grant(3)] }, 5);
    assert.deepEqual(one.kinds(), ['send']);
    one.give({ kind: 'timer' }, 25);
    one.give({ kind: 'answered', grants: [grant(2, 2_000, [B])] }, 30);
    const taken = one.take().find(({ kind }) => kind === 'take');
    assert(taken?.kind === 'take');
    assert.deepEqual(taken.addresses, [{ address: B, announce: 'L2' }]);
  });

  it('takes no address before the rules in force guard it', () => {
    const one = new Stepper();
    one.give({ kind: 'enforced', guarded: new Set([B]) }, 0);
    one.give(viewed(ownedSlot()), 0);
    one.give({ kind: 'answered', grants: [grant()] }, 5);
    assert.deepEqual(one.kinds(), ['send']);
    one.give({ kind: 'enforced', guarded: new Set([A, B]) }, 6);
    assert.deepEqual(one.kinds(), ['take']);
  });

  it('after a stop longer than the lease: no renewal by the old grant, but a drop and a request', () => {
    const one = Stepper.held();
    one.give({ kind: 'timer' }, 500);
    one.give({ kind: 'answered', grants: [grant()] }, 6_000);
    assert.deepEqual(one.kinds(), ['send', 'drop', 'send']);
    one.give({ kind: 'dropped', key: KEY }, 6_005);
    one.give({ kind: 'answered', grants: [grant()] }, 6_010);
    assert.deepEqual(one.take().at(0)?.kind, 'take');
  });

  it('takes again what has ended in the kernel, though the grant lasts', () => {
    const one = Stepper.held();
    one.give({ kind: 'timer' }, 500);
    one.give({ kind: 'answered', grants: [grant()] }, 510);
    one.give({ kind: 'renewed', ended: [A] }, 512);
    assert.deepEqual(one.kinds(), ['send', 'renew', 'drop']);
    one.give({ kind: 'dropped', key: KEY }, 515);
    assert.deepEqual(one.kinds(), ['take', 'send']);
  });

  it('renews again after a slow renewal: the timeouts count from when the kernel got them', () => {
    const one = Stepper.held();
    one.give({ kind: 'timer' }, 500);
    one.give({ kind: 'answered', grants: [grant()] }, 510);
    one.take();
    one.give({ kind: 'renewed', ended: [] }, 1_000);
    const [renewal, request] = one.take();
    assert.deepEqual(renewal, { kind: 'renew', renewals: [{ address: A, until: 2_500 }] });
    assert.deepEqual(request, { kind: 'send', request: { held: held(1_990), ready } });
  });

  it('says in the log once that no controller answers, and retries soon, then with each heartbeat', () => {
    const one = Stepper.held();
    const sent: number[] = [];
    for (let now = 500; now < 3_000; now = one.timer) {
      one.give({ kind: 'timer' }, now);
      if (one.take().some(({ kind }) => kind === 'send')) {
        sent.push(now);
        one.give({ kind: 'unanswered', error: 'refused' }, now + 1);
      }
      if (one.state.slots.get(KEY)?.call?.kind === 'drop') one.give({ kind: 'dropped', key: KEY }, now + 2);
    }
    assert.deepEqual(sent.slice(0, 4), [500, 551, 1_051, 1_551]);
    assert.equal(one.state.isAwayLogged, true);
    assert.deepEqual([...(one.state.slots.get(KEY)?.live ?? [])], []);
  });

  it('does not take a slot that another host has, and says so', () => {
    const one = new Stepper();
    one.give(viewed(ownedSlot()), 0);
    one.give({ kind: 'answered', grants: [grant()] }, 5);
    one.take();
    one.give({ kind: 'taken', key: KEY, conflicts: [{ address: A, mac: '02:00:00:00:00:01' }] }, 40);
    const reason = 'AddressConflict';
    const request = { held: [], ready: [{ gateway: 'pool', ready: false, reason }] };
    assert.deepEqual(one.take(), [{ kind: 'send', request }]);
    one.give({ kind: 'answered', grants: [grant()] }, 45);
    assert.deepEqual(one.kinds(), []);
    one.give({ kind: 'timer' }, 10_045);
    one.give({ kind: 'answered', grants: [grant()] }, 10_046);
    assert.deepEqual(one.kinds(), ['send', 'take']);
  });

  it('lets another node have a slot that it fails to take, and says each error once', () => {
    const one = new Stepper();
    one.give(viewed(ownedSlot()), 0);
    let now = 1;
    for (; one.state.slots.get(KEY)?.hindrance === null; now = Math.min(one.timer, now + 10)) {
      if (one.state.request !== null) one.give({ kind: 'answered', grants: [grant()] }, now);
      else one.give({ kind: 'timer' }, now);
      const call = one.state.slots.get(KEY)?.call?.kind;
      if (call === 'take') one.give({ kind: 'failed', key: KEY, error: 'no interface' }, now);
      if (one.state.slots.get(KEY)?.call?.kind === 'drop') one.give({ kind: 'dropped', key: KEY }, now);
    }
    assert(now < 1_000, `${now}`);
    one.give({ kind: 'answered', grants: [grant()] }, now);
    assert.equal(one.logs.filter((message) => /cannot take/.test(message)).length, 1);
    const ready = one.take().findLast((effect) => effect.kind === 'send')?.request.ready;
    assert.deepEqual(ready, [{ gateway: 'pool', ready: false, reason: 'AddressNotTaken' }]);
  });

  describe('of a new process', () => {
    it('goes on with what is alive: nothing moves', () => {
      const one = new Stepper([[A, 30_000]]);
      assert.deepEqual(one.kinds(), []);
      one.give(viewed(ownedSlot()), 100);
      assert.deepEqual(one.take(), [{ kind: 'send', request: { held: held(29_900), ready } }]);
      one.give({ kind: 'answered', grants: [grant()] }, 110);
      assert.deepEqual(one.take(), [{ kind: 'renew', renewals: [{ address: A, until: 2_100 }] }]);
    });

    it('drops what is alive and not its own, before the first request', () => {
      const one = new Stepper([
        [A, 30_000],
        [B, 30_000],
      ]);
      one.give(viewed(ownedSlot()), 100);
      assert.deepEqual(one.take(), [{ kind: 'drop', key: ' ', addresses: [B] }]);
      one.give({ kind: 'dropped', key: ' ' }, 110);
      assert.deepEqual(one.take(), [{ kind: 'send', request: { held: held(29_890), ready } }]);
    });
  });

  describe('of a process that ends', () => {
    it('asks for an extension, gives the kernel what was granted, and ends', () => {
      const one = Stepper.held();
      one.give({ kind: 'stop' }, 600);
      const request = { held: held(1_400), ready, extendSeconds: 30 };
      assert.deepEqual(one.take(), [{ kind: 'send', request }]);
      // It is written into the status before.
      one.give({ kind: 'answered', grants: [grant(1, 2_000)] }, 602);
      assert.deepEqual(one.kinds(), ['renew']);
      one.give({ kind: 'renewed', ended: [] }, 603);
      assert.equal(one.timer, 625);
      one.give({ kind: 'timer' }, 625);
      assert.deepEqual(one.kinds(), ['send']);
      one.give({ kind: 'answered', grants: [grant(1, 30_000)] }, 630);
      assert.deepEqual(one.take(), [{ kind: 'renew', renewals: [{ address: A, until: 30_625 }] }]);
      assert.equal(one.state.phase, 'stopping');
      one.give({ kind: 'renewed', ended: [] }, 632);
      assert.equal(one.state.phase, 'ended');
    });

    it('ends without a controller; what is alive ends by itself', () => {
      const one = Stepper.held();
      one.give({ kind: 'stop' }, 600);
      one.give({ kind: 'unanswered', error: 'refused' }, 605);
      assert.equal(one.state.phase, 'ended');
      assert.deepEqual(one.kinds(), ['send']);
    });
  });

  it('drops everything before the rules are removed, and takes nothing again', () => {
    const one = Stepper.held();
    one.give({ kind: 'release' }, 100);
    const reason = 'AgentOff';
    const notReady = [{ gateway: 'pool', ready: false, reason }];
    assert.deepEqual(one.take(), [
      { kind: 'drop', key: KEY, addresses: [A] },
      { kind: 'send', request: { held: held(1_900), ready: notReady } },
    ]);
    one.give({ kind: 'dropped', key: KEY }, 105);
    one.give({ kind: 'answered', grants: [grant()] }, 110);
    assert.deepEqual(one.take(), [{ kind: 'send', request: { held: [], ready: notReady } }]);
    one.give({ kind: 'enforced', guarded: new Set([A, B]) }, 120);
    // An apply that was in progress has ended.
    assert.deepEqual(one.kinds(), []);
  });
});
