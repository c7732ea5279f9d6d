import assert from 'node:assert/strict';
import fc from 'fast-check';
import { emptyNodeState, type NodeState } from '../../apis/compiled.ts';
import { fakeNodeEgress } from '../../test/fake/egress-objects.ts';
import { GuardWorld } from '../../test/fake/guard-world.ts';
import { closing, nodeState } from '../../test/fake/node-state.ts';
import { cases } from '../../test/properties/runs.ts';
import type { GuardState, GuardTimes } from './guard-state.ts';
import { guardStep } from './guard-step.ts';
import { holdText } from './holds.ts';

/** In steps: timers that timers arm must ring too. */
function pass(world: GuardWorld, milliseconds: number): void {
  for (let left = milliseconds; left > 0; left -= 250) world.clock.pass(Math.min(250, left));
}

function withGood(manual: number | null = null): GuardWorld {
  const world = new GuardWorld(manual);
  world.edit(false);
  if (manual === null) pass(world, 11_000);
  else world.happened({ kind: 'confirm' });
  assert.equal(world.confirmed, 1);
  return world;
}

/** A change that cut IPv6 off was rolled back a minute ago, and IPv6 has it still. */
function withKeptFamily(): GuardWorld {
  const world = withGood();
  world.probes = ['v4', 'v6'];
  world.edit(false);
  world.applyTakes = 100;
  world.denied = ['v6'];
  while (world.rollbacks.length === 0) world.clock.pass(50);
  world.happened({ kind: 'family', lacking: 6 });
  world.applyTakes = 0;
  pass(world, 60_000);
  return world;
}

describe('step of guarded apply', () => {
  it('confirms after three rounds over the window, and not before', () => {
    const world = new GuardWorld();
    world.edit(false);
    pass(world, 9_750);
    assert.equal(world.confirmed, undefined);
    pass(world, 750);
    assert.equal(world.confirmed, 1);
    assert.deepEqual(world.clock.waiting(), [], 'no probe is made when nothing is tried');
  });

  it('submits the confirmed rules at once where tried ones were lost, else in a later turn', () => {
    const times: GuardTimes = { window: 10_000, failAfter: 15_000, manual: null };
    const urgencies = (state: GuardState, kind: 'started' | 'lost') =>
      guardStep(state, { kind, at: 0, time: '' }, times).effects.flatMap((effect) =>
        effect.kind === 'submit' ? [effect.isUrgent] : [],
      );
    const world = withGood();
    world.edit(false);
    assert.deepEqual(urgencies(world.state, 'lost'), [true]);
    world.restart(false);
    assert.deepEqual(urgencies(world.state, 'started'), [false]);
    assert.deepEqual(urgencies(withGood().state, 'lost'), [], 'nothing is tried');
  });

  it('confirms at the end of the window too where timers fire a little early', () => {
    const world = new GuardWorld();
    world.early = 0.5;
    world.edit(false);
    while (world.confirmed === undefined) world.clock.pass(world.clock.waiting()[0] ?? 0);
    assert.ok(world.clock.now() < 10_100, `after ${world.clock.now()} ms`);
  });

  it('confirms no change that a family lacks, and begins its trial anew once the family has it', () => {
    for (const probes of [['api-server'], []]) {
      const world = withGood();
      world.probes = probes;
      world.happened({ kind: 'family', lacking: 4 });
      world.edit(false);
      pass(world, 700_000);
      assert.deepEqual([world.enforced, world.confirmed], [2, 1], 'neither by probes nor by time');
      world.happened({ kind: 'family', lacking: null });
      pass(world, 9_750);
      assert.equal(world.confirmed, 1);
      pass(world, 750);
      assert.equal(world.confirmed, 2);
    }
    const world = withGood();
    world.happened({ kind: 'family', lacking: 4 });
    world.edit(false);
    pass(world, 60_000);
    world.denied = ['api-server'];
    world.happened({ kind: 'family', lacking: null });
    pass(world, 15_500);
    assert.deepEqual([world.enforced, world.confirmed, world.rollbacks.length], [1, 1, 1]);
    const byHand = withGood(600_000);
    byHand.happened({ kind: 'family', lacking: 6 });
    byHand.edit(false);
    byHand.happened({ kind: 'confirm' });
    assert.equal(byHand.confirmed, 1);
    byHand.happened({ kind: 'family', lacking: null });
    byHand.happened({ kind: 'confirm' });
    assert.equal(byHand.confirmed, 2);
  });

  it('says of a change that nobody could confirm, as a family lacked it, that this is why it is held', () => {
    for (const lacking of [6, null] as const) {
      const world = withGood(600_000);
      world.happened({ kind: 'family', lacking });
      world.edit(false);
      pass(world, 601_000);
      assert.deepEqual([world.enforced, world.confirmed], [1, 1]);
      const [{ why } = assert.fail()] = world.state.holds;
      const text = lacking === null ? /not confirmed by hand/ : /not confirmed: the rules of IPv6 could not/;
      assert.match(holdText(why), text);
    }
  });

  it('takes a change back that fails a probe, within failAfter, and holds it until it is edited', () => {
    const world = withGood();
    world.edit(true);
    pass(world, 14_750);
    assert.equal(world.enforced, 2);
    pass(world, 500);
    assert.equal(world.enforced, 1);
    const [{ why } = {}] = world.rollbacks;
    assert.deepEqual(why?.kind === 'probe' && [why.probe, why.fault?.rule], ['api-server', 'r']);
    pass(world, 700_000);
    assert.deepEqual([world.enforced, world.confirmed, world.rollbacks.length], [1, 1, 1]);
    world.edit(false);
    pass(world, 11_000);
    assert.equal(world.confirmed, 3);
    assert.deepEqual(world.state.holds, []);
  });

  it('takes back an edit that follows a rollback at once, though no round was made before it', () => {
    const world = withGood();
    world.edit(true);
    pass(world, 15_250);
    assert.equal(world.enforced, 1);
    world.isRoundStale = true;
    world.edit(true);
    assert.equal(world.enforced, 3);
    pass(world, 16_000);
    assert.deepEqual([world.enforced, world.confirmed, world.rollbacks.length], [1, 1, 2]);
  });

  it('begins the window anew for a state that joins, and goes back to the last confirmed one', () => {
    const world = withGood();
    world.edit(false);
    pass(world, 8_000);
    world.edit(false);
    pass(world, 8_000);
    assert.equal(world.confirmed, 1);
    world.edit(true);
    pass(world, 16_000);
    assert.equal(world.enforced, 1);
  });

  it('costs an outage without a policy at fault one rollback: the change is applied again', () => {
    const world = withGood();
    world.edit(false);
    world.hasOutage = true;
    pass(world, 15_500);
    assert.equal(world.enforced, 1);
    pass(world, 15_500);
    assert.equal(world.enforced, 2, 'applied again');
    pass(world, 11_000);
    assert.equal(world.confirmed, 2, 'the probe failed before it, so it does not count');
    world.hasOutage = false;
    world.edit(false);
    world.hasOutage = true;
    pass(world, 300_000);
    assert.deepEqual([world.rollbacks.length, world.enforced], [1, 3], 'not within ten minutes');
  });

  it('is no outage while a family keeps what was tried: the change stays held until the rollback reaches it', () => {
    const world = withKeptFamily();
    assert.deepEqual([world.enforced, world.state.holds.length], [1, 1]);
    pass(world, 400_000);
    assert.deepEqual([world.enforced, world.confirmed, world.state.holds.length], [1, 1, 1]);
    world.denied = [];
    world.happened({ kind: 'family', lacking: null });
    pass(world, 2_000);
    assert.deepEqual([world.state.check, world.enforced, world.state.holds.length], [null, 1, 1]);
  });

  it('tries innocent changes again once the rollback has reached both families', () => {
    const world = withGood();
    world.probes = ['v4', 'v6'];
    world.edit(false, 'nodewall.io/q');
    pass(world, 60_000);
    const [guilty, innocent] = ['nodewall.io/p', 'nodewall.io/q'];
    world.want(
      new Map(world.wanted)
        .set(guilty, { number: 100, denies: ['v6'] })
        .set(innocent, { number: 101, denies: [] }),
    );
    world.applyTakes = 100;
    while (world.rollbacks.length === 0) world.clock.pass(50);
    world.happened({ kind: 'family', lacking: 6 });
    world.denied = ['v6'];
    world.applyTakes = 0;
    pass(world, 60_000);
    world.denied = [];
    world.happened({ kind: 'family', lacking: null });
    pass(world, 60_000);
    assert.deepEqual(
      world.state.holds.map(({ key }) => key),
      [guilty],
    );
    assert.equal(world.inForce.get(innocent)?.number, 101);
  });

  it('counts the probe of an edit that comes while a family keeps what was tried', () => {
    const world = withKeptFamily();
    world.edit(false);
    assert.deepEqual([...(world.state.trial?.counted ?? [])].sort(), ['v4', 'v6']);
    world.happened({ kind: 'family', lacking: null });
    pass(world, 300_000);
    assert.equal(world.confirmed, 1);
    // The round before an edit is made under the rules of before from then on.
    const later = withKeptFamily();
    later.happened({ kind: 'family', lacking: null });
    pass(later, 11_000);
    later.edit(false);
    assert.deepEqual([...(later.state.trial?.counted ?? [])], ['v4']);
  });

  it('counts that probe for an edit after a restart too, while the family keeps what was tried', () => {
    for (const isAtOnce of [false, true]) {
      const world = withKeptFamily();
      if (isAtOnce) world.wanted = new Map(world.wanted).set('nodewall.io/p', { number: 50, denies: ['v6'] });
      world.restart(false, 6);
      if (!isAtOnce) {
        pass(world, 30_000);
        world.edit(['v6']);
      }
      pass(world, 2_000);
      assert.deepEqual([...(world.state.trial?.counted ?? [])].sort(), ['v4', 'v6']);
      world.happened({ kind: 'family', lacking: null });
      pass(world, 300_000);
      assert.equal(world.confirmed, 1);
    }
    // The probes that were saved do not count once the rollback has reached both families.
    const later = withKeptFamily();
    later.happened({ kind: 'family', lacking: null });
    assert.equal(later.memory?.lastCounted, undefined);
  });

  it('is an outage if the probe still fails once the rollback has reached both families', () => {
    const world = withKeptFamily();
    pass(world, 60_000);
    world.happened({ kind: 'family', lacking: null });
    pass(world, 14_500);
    assert.equal(world.enforced, 1, 'the rules of that family had no time to help');
    pass(world, 1_000);
    assert.equal(world.enforced, 2, 'applied again');
  });

  it('tries again once after a restart in the window; then holds', () => {
    const world = withGood();
    world.edit(false);
    pass(world, 2_000);
    world.restart(false);
    assert.equal(world.enforced, 1, 'the confirmed rules first');
    pass(world, 250);
    assert.equal(world.enforced, 2, 'tried again, once the probe has passed');
    assert.equal(world.state.trial?.attempt, 2);
    world.restart(true);
    assert.equal(world.enforced, 1);
    pass(world, 100_000);
    assert.deepEqual([world.enforced, world.rollbacks.map(({ why }) => why.kind)], [1, ['interrupted']]);
    world.happened({ kind: 'retry', policy: 'p' });
    pass(world, 11_000);
    assert.equal(world.confirmed, 2);
  });

  it('tries a change once more, ten minutes later, if an outage may have been the cause', () => {
    const world = withGood();
    world.edit(false);
    world.hasOutage = true;
    pass(world, 16_000);
    world.hasOutage = false;
    pass(world, 2_000);
    assert.deepEqual([world.enforced, world.state.check], [1, null], 'the outage ended just then');
    pass(world, 590_000);
    world.restart(false);
    assert.equal(world.enforced, 1);
    pass(world, 20_000);
    assert.deepEqual([world.confirmed, world.rollbacks.length], [2, 1]);
  });

  it('holds it for good if that is taken back too', () => {
    const world = withGood();
    world.edit(true);
    world.isFaultUnknown = true;
    pass(world, 610_000);
    assert.deepEqual([world.enforced, world.rollbacks.length], [1, 1]);
    pass(world, 100_000);
    assert.deepEqual([world.enforced, world.rollbacks.length], [1, 2]);
    const { length } = world.applies;
    pass(world, 2_000_000);
    assert.deepEqual([world.applies.length, world.state.holds.length], [length, 1]);
  });

  it('takes nothing back for a probe that nobody can make', () => {
    const world = withGood();
    world.edit(true);
    world.isProberAway = true;
    pass(world, 38_000);
    assert.equal(world.confirmed, 1, 'it waits for the prober');
    pass(world, 8_000);
    assert.deepEqual([world.confirmed, world.rollbacks], [2, []]);
  });

  it('takes back what fails a probe whose prober was busy all through the window', () => {
    const world = withGood();
    world.edit(true);
    world.isProberAway = true;
    pass(world, 30_000);
    world.isProberAway = false;
    pass(world, 25_000);
    assert.deepEqual([world.enforced, world.confirmed, world.rollbacks.length], [1, 1, 1]);
    world.edit(false);
    world.isProberAway = true;
    pass(world, 12_000);
    world.isProberAway = false;
    pass(world, 6_000);
    assert.equal(world.confirmed, 3, 'confirmed as soon as it was made');
  });

  it('takes back what failed a probe that nobody can make any more, and tries it again if no rule is at fault', () => {
    for (const isBad of [true, false]) {
      const world = withGood();
      world.edit(isBad);
      world.hasOutage = !isBad;
      pass(world, 1_000);
      world.isProberAway = true;
      pass(world, 15_000);
      assert.deepEqual([world.enforced, world.rollbacks.length], [1, 1]);
      pass(world, 16_000);
      assert.equal(world.enforced, isBad ? 1 : 2);
    }
  });

  it('enforces the confirmed rules first where a run begins with others, which uses up no attempt', () => {
    const world = withGood();
    world.wanted = new Map([['nodewall.io/p', { number: 2, denies: world.probes }]]);
    world.inForce = world.wanted;
    world.restart(false);
    assert.equal(world.enforced, 1, 'the confirmed rules are in force again');
    pass(world, 250);
    assert.equal(world.state.trial?.attempt, 1);
    assert.deepEqual([...(world.state.trial?.counted ?? [])], ['api-server'], 'so that the probe counts');
    pass(world, 16_000);
    assert.deepEqual([world.enforced, world.confirmed], [1, 1]);
  });

  it('waits for a confirmation by hand, and goes back after the timeout', () => {
    const world = withGood(60_000);
    world.edit(false);
    pass(world, 59_000);
    assert.deepEqual([world.confirmed, world.enforced], [1, 2]);
    pass(world, 2_000);
    assert.deepEqual([world.enforced, world.rollbacks[0]?.why.kind], [1, 'unconfirmed']);
    world.happened({ kind: 'retry', policy: null });
    world.happened({ kind: 'confirm' });
    assert.equal(world.confirmed, 2);
  });

  it('holds what it promises over any sequence of events', () => {
    const event = fc.oneof(
      {
        weight: 6,
        arbitrary: fc.record({ kind: fc.constant('pass'), for: fc.integer({ min: 100, max: 20_000 }) }),
      },
      { weight: 4, arbitrary: fc.record({ kind: fc.constant('edit'), isBad: fc.boolean() }) },
      { weight: 3, arbitrary: fc.record({ kind: fc.constant('outage'), is: fc.boolean() }) },
      fc.record({ kind: fc.constant('restart'), isReboot: fc.boolean() }),
      fc.record({ kind: fc.constantFrom('lost', 'confirm', 'retry') }),
    );
    fc.assert(
      fc.property(fc.array(event, { minLength: 10, maxLength: 60 }), (events) => {
        const world = new GuardWorld();
        for (const one of events) follow(world, one);
        assertOutages(world);
        world.hasOutage = false;
        pass(world, 40_000);
        assert.ok(world.isSettled, 'a trial ends');
        assert.equal(world.confirmed, world.enforced, 'the state in force is what survives');
        // A change that was held without proof is tried once more.
        pass(world, 700_000);
        assert.ok(world.isSettled, 'a trial ends');
        const count = world.applies.length;
        pass(world, 700_000);
        assert.equal(world.applies.length, count, 'no flapping');
      }),
      { numRuns: cases(3_000) },
    );
  });
});

describe('a rollback of several policies', () => {
  const [GOOD, BAD, OTHER] = ['nodewall.io/good', 'nodewall.io/bad', 'nodewall.io/other'] as const;

  /** Tried together: some of them deny the probe. */
  function trying(denies: Readonly<Record<string, boolean>>): GuardWorld {
    const world = withGood();
    const versions = Object.entries(denies).map(([key, isBad], i) => {
      return [key, { number: 10 + i, denies: isBad ? world.probes : [] }] as const;
    });
    world.want(new Map([...world.wanted, ...versions]));
    return world;
  }
  const heldIn = (world: GuardWorld) => world.state.holds.map(({ key }) => key).sort();

  it('holds the one whose rule denies the probe, and tries the others at once', () => {
    const world = trying({ [GOOD]: false, [BAD]: true });
    pass(world, 15_250);
    assert.deepEqual(world.rollbacks[0]?.keys, [BAD]);
    pass(world, 250);
    assert.deepEqual([...world.inForce.keys()].sort(), [GOOD, 'nodewall.io/p']);
    assert.deepEqual([...(world.state.trial?.counted ?? [])], ['api-server']);
    pass(world, 10_500);
    assert.deepEqual([...(world.saved?.keys() ?? [])].sort(), [GOOD, 'nodewall.io/p']);
    assert.deepEqual([heldIn(world), world.rollbacks.length], [[BAD], 1]);
  });

  it('holds all that deny it', () => {
    const world = trying({ [GOOD]: false, [BAD]: true, [OTHER]: true });
    pass(world, 27_000);
    assert.deepEqual([heldIn(world), world.rollbacks.length], [[BAD, OTHER], 1]);
    assert.ok(world.saved?.has(GOOD));
  });

  it('holds all where no rule is known to deny it, until one of them is edited or deleted', () => {
    for (const isDeleted of [true, false]) {
      const world = trying({ [GOOD]: false, [BAD]: true });
      world.isFaultUnknown = true;
      pass(world, 17_000);
      assert.deepEqual(heldIn(world), [BAD, GOOD]);
      if (isDeleted) world.delete(BAD);
      else world.edit(false, BAD);
      pass(world, 12_000);
      assert.deepEqual([heldIn(world), world.saved], [[], world.wanted]);
    }
  });

  it('holds the others too where the probe does not pass again, until the first is edited', () => {
    const world = trying({ [GOOD]: false, [BAD]: true });
    pass(world, 15_250);
    world.hasOutage = true;
    pass(world, 16_000);
    const unproven = world.state.holds.find(({ key }) => key === GOOD);
    assert.deepEqual([unproven?.why.kind, unproven?.because], ['unproven', [BAD]]);
    world.restart(false);
    world.hasOutage = false;
    world.edit(false, OTHER);
    pass(world, 30_000);
    assert.deepEqual(heldIn(world), [BAD, GOOD]);
    world.delete(BAD);
    pass(world, 12_000);
    assert.deepEqual([heldIn(world), world.saved], [[], world.wanted]);
  });
});

describe('egress gateways while rules are tried', () => {
  const good = { ...nodeState(closing('good', 22)), egress: fakeNodeEgress() };
  const begun: GuardState = {
    confirmed: good,
    trial: null,
    interrupted: null,
    proof: null,
    check: null,
    lastCounted: null,
    lacking: null,
    holds: [],
    rollbacks: new Map(),
  };
  const times: GuardTimes = { window: 10_000, failAfter: 15_000, manual: null };
  const changes = [{ key: 'nodewall.io/next', digest: 'n', before: null, generation: 1 }];

  function applied(state: GuardState, now: NodeState): [GuardState, readonly NodeState[]] {
    const event = {
      kind: 'applied',
      state: now,
      isTried: true,
      changes,
      sets: [],
      passed: [],
      unmade: [],
    } as const;
    const step = guardStep(state, { ...event, at: 0, time: '' }, times);
    return [step.state, step.effects.flatMap((one) => (one.kind === 'save' ? one.state : []))];
  }

  it('survive beside the confirmed rules, as they are now', () => {
    const next = nodeState(closing('next', 23));
    let [state, saved] = applied(begun, { ...next, egress: good.egress });
    assert.deepEqual(saved, [], 'they are as they were confirmed');
    for (const egress of [fakeNodeEgress(), fakeNodeEgress()]) {
      [state, saved] = applied(state, { ...next, egress });
      assert.deepEqual(saved, [{ ...good, egress }]);
      assert.equal(saved[0]?.egress, egress);
      assert.equal(state.confirmed, saved[0], 'the state that a rollback goes back to');
      [state, saved] = applied(state, { ...next, egress });
      assert.deepEqual(saved, []);
    }
    [state, saved] = applied(state, next);
    assert.deepEqual(saved, [nodeState(closing('good', 22))], 'the gate is off');
  });

  it('survive where no rules were ever confirmed', () => {
    const egress = fakeNodeEgress();
    const next = { ...nodeState(closing('next', 23)), egress };
    const [, saved] = applied({ ...begun, confirmed: null }, next);
    assert.deepEqual(saved, [{ ...emptyNodeState(next.node), egress }]);
    assert.deepEqual(applied({ ...begun, confirmed: null }, nodeState(closing('next', 23)))[1], []);
  });
});

type Event = { kind: string; for?: number; isBad?: boolean; is?: boolean; isReboot?: boolean };

function follow(world: GuardWorld, event: Event): void {
  const before = world.confirmed;
  switch (event.kind) {
    case 'pass':
      pass(world, event.for ?? 0);
      return;
    case 'edit':
      world.edit(event.isBad === true);
      return;
    case 'outage':
      world.hasOutage = event.is === true;
      return;
    case 'restart':
      world.restart(event.isReboot === true);
      assert.equal(world.confirmed, before, 'only the confirmed state survives');
      return;
    case 'retry':
      world.happened({ kind: 'retry', policy: null });
      return;
    default:
      world.happened({ kind: event.kind as 'lost' | 'confirm' });
  }
}

/** No more than one rollback in ten minutes for the probe where no rule was at fault. */
function assertOutages({ rollbacks }: GuardWorld): void {
  let last = Number.NEGATIVE_INFINITY;
  for (const { at, why } of rollbacks) {
    if (why.kind !== 'probe') continue;
    if (why.fault === null) assert.ok(at - last >= 600_000, `rollbacks at ${last} and ${at}`);
    last = at;
  }
}
