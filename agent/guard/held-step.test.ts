import assert from 'node:assert/strict';
import fc from 'fast-check';
import { GuardWorld } from '../../test/fake/guard-world.ts';
import { cases } from '../../test/properties/runs.ts';

const PROBES = ['api-server', 'controller', 'dns', 'ssh'] as const;

/** In steps: timers that timers arm must ring too. */
function pass(world: GuardWorld, milliseconds: number): void {
  for (let left = milliseconds; left > 0; left -= 50) world.clock.pass(Math.min(50, left));
}

/** Confirmed: version 1, which denies nothing. */
function withGood(): GuardWorld {
  const world = new GuardWorld();
  world.probes = PROBES;
  world.applyTakes = 100;
  world.edit(false);
  pass(world, 12_000);
  assert.deepEqual([world.confirmed, world.isSettled], [1, true]);
  return world;
}

function held(world: GuardWorld): unknown[] {
  return world.state.holds.filter(({ isBrief }) => !isBrief).map(({ key, why }) => [key, why.kind]);
}

describe('proof before a trial', () => {
  it('is required of each probe that counted when the trial was interrupted', () => {
    const world = withGood();
    world.edit(['api-server']);
    pass(world, 3_000);
    assert.deepEqual(world.memory?.trial?.counted, PROBES);
    world.restart(false);
    world.hasOutage = true;
    assert.equal(world.enforced, 2, 'the kernel still has the rules of the trial');
    pass(world, 10_000);
    assert.deepEqual([world.enforced, world.state.trial], [1, null]);
    world.hasOutage = false;
    pass(world, 1_100);
    assert.deepEqual([...(world.state.trial?.counted ?? [])].sort(), [...PROBES]);
    assert.deepEqual([world.enforced, world.state.trial?.attempt], [2, 2]);
    pass(world, 16_000);
    assert.deepEqual([world.enforced, world.confirmed, held(world)], [1, 1, [['nodewall.io/p', 'probe']]]);
  });

  it('holds the change where one of them does not pass within failAfter, and says which', () => {
    const world = withGood();
    world.edit(['api-server']);
    pass(world, 3_000);
    world.restart(true);
    world.probes = ['controller', 'dns', 'ssh'];
    pass(world, 14_000);
    assert.deepEqual([world.enforced, held(world)], [1, []]);
    pass(world, 2_000);
    const [{ why } = assert.fail()] = world.rollbacks;
    assert.deepEqual(why, { kind: 'unproven', probes: ['api-server'] });
    pass(world, 1_000_000);
    assert.deepEqual([world.enforced, world.confirmed, world.isSettled], [1, 1, true]);
    world.restart(false);
    pass(world, 30_000);
    assert.deepEqual([world.enforced, held(world)], [1, [['nodewall.io/p', 'unproven']]]);
    world.probes = PROBES;
    world.edit(false);
    pass(world, 12_000);
    assert.equal(world.confirmed, 3, 'an edit is tried as always');
  });

  it('holds no policy that came meanwhile and was not tried, and tries it with the same probes', () => {
    for (const isBad of [false, true]) {
      const world = withGood();
      world.edit(['api-server']);
      pass(world, 3_000);
      world.restart(true);
      world.probes = ['controller', 'dns', 'ssh'];
      pass(world, 1_000);
      world.edit(isBad ? ['api-server'] : [], 'nodewall.io/q');
      pass(world, 15_000);
      assert.deepEqual(held(world), [['nodewall.io/p', 'unproven']]);
      assert.ok(world.state.trial?.counted.has('api-server'), 'it counted for the interrupted one');
      world.probes = PROBES;
      pass(world, 40_000);
      const isConfirmed = world.state.confirmed !== null && world.isSettled && held(world).length === 1;
      assert.equal(isConfirmed, !isBad, JSON.stringify(held(world)));
      if (isBad) assert.deepEqual(held(world).length, 2);
    }
  });

  it('is required of all probes where an older version saved which trial, and not what counted', () => {
    for (const isWhole of [true, false]) {
      const world = withGood();
      world.edit(['api-server']);
      pass(world, 3_000);
      const { trial } = world.memory ?? assert.fail();
      assert.ok(trial);
      world.memory = { ...(world.memory ?? assert.fail()), trial: { ...trial, counted: null } };
      world.probes = isWhole ? PROBES : [...PROBES, 'never'];
      world.denied = isWhole ? [] : ['never'];
      world.restart(false);
      pass(world, 14_000);
      assert.equal(world.state.trial?.attempt, isWhole ? 2 : undefined);
      pass(world, 20_000);
      assert.deepEqual([world.enforced, world.confirmed], [1, 1]);
      assert.deepEqual(held(world), [['nodewall.io/p', isWhole ? 'probe' : 'unproven']]);
    }
  });

  it('is waited for by edits that come before the confirmed rules are in force again', () => {
    const world = withGood();
    world.edit(['api-server']);
    pass(world, 3_000);
    world.restart(false);
    world.edit(['api-server', 'dns']);
    world.edit(['controller'], 'nodewall.io/q');
    pass(world, 150);
    assert.deepEqual([...(world.state.trial?.changes ?? [])].map(({ key }) => key).length, 0);
    pass(world, 60_000);
    assert.deepEqual([world.enforced, world.confirmed, world.saved?.size], [1, 1, 1]);
  });

  it('goes on through another interruption, which uses up no attempt', () => {
    const world = withGood();
    world.edit(false);
    pass(world, 3_000);
    world.hasOutage = true;
    for (let i = 0; i < 5; i++) {
      world.restart(i % 2 === 0);
      pass(world, 5_000);
      assert.equal(world.state.trial, null);
    }
    world.hasOutage = false;
    pass(world, 13_000);
    assert.deepEqual([world.confirmed, world.rollbacks], [2, []]);
  });

  it('begins when the change is wanted again, where the confirmed state is wanted first', () => {
    const world = withGood();
    const before = world.wanted;
    world.edit(['dns']);
    pass(world, 3_000);
    const after = world.wanted;
    world.wanted = before;
    world.restart(false);
    pass(world, 100_000);
    assert.deepEqual([world.enforced, world.clock.waiting()], [1, []], 'no probe meanwhile');
    world.hasOutage = true;
    world.want(after);
    pass(world, 5_000);
    assert.equal(world.enforced, 1);
    world.hasOutage = false;
    pass(world, 1_200);
    assert.deepEqual([world.enforced, world.state.trial?.attempt], [2, 2]);
  });

  it('ends where nobody wants the change any more', () => {
    const world = withGood();
    const before = world.wanted;
    world.edit(['dns']);
    pass(world, 3_000);
    world.hasOutage = true;
    world.restart(false);
    pass(world, 2_000);
    world.want(before);
    pass(world, 1_000);
    world.want(new Map());
    world.edit(false);
    pass(world, 30_000);
    assert.deepEqual([held(world), world.state.interrupted], [[], null]);
    assert.equal(world.confirmed, 3);
  });

  it('does not hold what was never tried: with an outage at the start it is applied as always', () => {
    const world = withGood();
    world.wanted = new Map([['nodewall.io/p', { number: 2, denies: [] }]]);
    world.hasOutage = true;
    world.restart(true);
    pass(world, 14_000);
    assert.equal(world.enforced, 1);
    pass(world, 13_000);
    assert.deepEqual([world.enforced, world.confirmed, held(world)], [2, 2, []]);
  });

  it('begins anew where the kernel loses its rules meanwhile', () => {
    const world = withGood();
    world.edit(['dns']);
    pass(world, 3_000);
    world.hasOutage = true;
    world.lose();
    pass(world, 10_000);
    world.lose();
    pass(world, 10_000);
    assert.deepEqual([world.enforced, held(world)], [1, []]);
    world.hasOutage = false;
    pass(world, 1_200);
    assert.equal(world.state.trial?.attempt, 2);
  });

  it('is not required of a probe to the node that nobody could make, which is tried before it is confirmed', () => {
    for (const isBad of [true, false]) {
      const world = withGood();
      world.inward = ['ssh'];
      world.isProberAway = true;
      world.restart(false);
      pass(world, 1_000);
      world.edit(isBad ? ['ssh'] : []);
      pass(world, 2_000);
      assert.ok(world.state.trial?.counted.has('ssh'), 'it could be made before the restart');
      world.restart(true);
      pass(world, 30_000);
      assert.deepEqual([world.enforced, world.confirmed, held(world)], [2, 1, []]);
      world.isProberAway = false;
      pass(world, 25_000);
      assert.deepEqual([world.enforced, world.confirmed], isBad ? [1, 1] : [2, 2]);
      assert.deepEqual(held(world), isBad ? [['nodewall.io/p', 'probe']] : []);
    }
  });

  it('ends where nobody ever makes the probe to the node: the others confirm', () => {
    const world = withGood();
    world.inward = ['ssh'];
    world.isProberAway = true;
    world.restart(false);
    for (const number of [2, 3]) {
      world.edit(false);
      pass(world, 3_000);
      world.restart(number === 2);
      pass(world, 46_000);
      assert.deepEqual([world.confirmed, world.isSettled, world.rollbacks], [number, true, []]);
    }
  });

  it('never lets a cut survive, whenever and however often its trial is interrupted', () => {
    fc.assert(
      fc.property(fc.array(event(), { minLength: 8, maxLength: 60 }), times(), (events, took) => {
        const world = new GuardWorld();
        world.probes = PROBES;
        world.inward = ['ssh'];
        Object.assign(world, took);
        for (const one of events) {
          follow(world, one);
          assertConfirmed(world);
        }
        // The prober is back, and no proof waits for it any more.
        pass(world, 40_000);
        assertConfirmed(world);
        // An edit tries again the changes that interruptions have left held.
        for (const key of world.wanted.keys()) world.edit(false, key);
        world.edit(false);
        // Nothing can be edited that was deleted.
        world.happened({ kind: 'retry', policy: null });
        pass(world, 90_000);
        assertConfirmed(world);
        assert.ok(world.isSettled);
        assert.deepEqual(world.saved, world.wanted, 'good changes are confirmed in the end');
      }),
      { numRuns: cases(2_000) },
    );
  });
});

/** There was no outage: a cut that is saved was confirmed without its probe. */
function assertConfirmed({ saved, confirmed }: GuardWorld): void {
  const cuts = [...(saved?.values() ?? [])].filter(({ denies }) => denies.length > 0);
  assert.deepEqual(cuts, [], `version ${confirmed} cuts the node off`);
}

type Event =
  | { readonly kind: 'pass'; readonly for: number }
  | { readonly kind: 'edit'; readonly key: string; readonly denies: readonly string[] }
  | { readonly kind: 'delete'; readonly key: string }
  | { readonly kind: 'restart'; readonly isReboot: boolean }
  | { readonly kind: 'away'; readonly for: number }
  | { readonly kind: 'lose' };

function event(): fc.Arbitrary<Event> {
  const key = fc.constantFrom('nodewall.io/p', 'nodewall.io/q');
  const denies = fc.oneof(fc.constant([]), fc.constant(PROBES), fc.subarray([...PROBES]));
  // Interruptions follow edits soon, or come within the window.
  const moment = fc.oneof(fc.integer({ min: 1, max: 400 }), fc.integer({ min: 1, max: 16_000 }));
  return fc.oneof(
    { weight: 6, arbitrary: fc.record({ kind: fc.constant('pass' as const), for: moment }) },
    { weight: 5, arbitrary: fc.record({ kind: fc.constant('edit' as const), key, denies }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('delete' as const), key }) },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('restart' as const), isReboot: fc.boolean() }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('away' as const), for: moment }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('lose' as const) }) },
  );
}

/** Milliseconds. */
function times() {
  return fc.record({
    applyTakes: fc.constantFrom(0, 20, 300, 1_500),
    judgeTakes: fc.constantFrom(0, 10, 2_000),
    writeTakes: fc.constantFrom(0, 5, 500),
    roundTakes: fc.constantFrom(0, 30, 3_000),
  });
}

function follow(world: GuardWorld, one: Event): void {
  switch (one.kind) {
    case 'pass':
      pass(world, one.for);
      break;
    case 'edit':
      world.edit(one.denies, one.key);
      break;
    case 'delete':
      world.delete(one.key);
      break;
    case 'restart':
      world.restart(one.isReboot);
      break;
    case 'away':
      world.proberLeaves(one.for);
      break;
    case 'lose':
      world.lose();
      break;
  }
}
