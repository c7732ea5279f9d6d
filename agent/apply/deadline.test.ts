import assert from 'node:assert/strict';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { DeadlineKeeper, withDeadline } from './deadline.ts';

const QUIET = { warn() {} } as unknown as ConstructorParameters<typeof DeadlineKeeper>[0]['log'];
const SECONDS = 30_000;

describe('the deadline of rules that are tried', () => {
  function create() {
    const clock = fakeClock();
    const world = { end: null as number | null, fails: false, moves: 0, passed: 0, takes: 0 };
    const keeper = new DeadlineKeeper({
      clock,
      log: QUIET,
      kernel: {
        async move(milliseconds) {
          world.moves++;
          if (world.fails) throw new Error('no buffer space available');
          const isThere = world.end !== null && world.end > clock.now();
          world.end = clock.now() + milliseconds;
          return isThere;
        },
        isThere: async () => world.end !== null,
      },
      passed: () => world.passed++,
    });
    /** Time passes, and the agent runs. */
    async function run(milliseconds: number): Promise<void> {
      for (let left = milliseconds; left > 0; left -= 500) {
        clock.pass(500);
        await new Promise(setImmediate);
      }
    }
    return { clock, world, keeper, run };
  }

  it('is moved well before, for as long as there is one', async () => {
    const { world, keeper, run, clock } = create();
    await run(60_000);
    assert.equal(world.moves, 0);
    await keeper.begin(SECONDS, clock.now());
    for (let i = 0; i < 40; i++) {
      await run(SECONDS / 2);
      assert.ok((world.end ?? 0) - clock.now() > SECONDS / 2);
      assert.equal(await keeper.check(), true);
    }
    await keeper.end();
    const { moves } = world;
    await run(100_000);
    assert.deepEqual([world.moves, world.passed, await keeper.check()], [moves, 0, true]);
  });

  it('has passed where the process did not run, and that is told once', async () => {
    const { clock, world, keeper } = create();
    await keeper.begin(SECONDS, clock.now());
    clock.pass(SECONDS + 1);
    // The timer asks first.
    assert.deepEqual([await keeper.check(), world.passed], [true, 1]);
    assert.equal((world.end ?? 0) > clock.now(), true, 'it is in the future again');
  });

  it('has passed where a third party deleted it, and where somebody made it again meanwhile', async () => {
    const { clock, world, keeper } = create();
    await keeper.begin(SECONDS, clock.now());
    world.end = null;
    assert.deepEqual([await keeper.check(), world.passed], [false, 1]);
    // As a replacement of the table does.
    world.fails = true;
    clock.pass(SECONDS + 1);
    await new Promise(setImmediate);
    world.fails = false;
    world.end = clock.now() + SECONDS;
    assert.deepEqual([await keeper.check(), world.passed], [false, 2]);
  });

  it('is not known where the kernel refuses; that is tried again', async () => {
    const { clock, world, keeper, run } = create();
    await keeper.begin(SECONDS, clock.now());
    world.fails = true;
    assert.deepEqual([await keeper.check(), world.passed], [false, 0]);
    await run(10_000);
    world.fails = false;
    await run(2_000);
    assert.deepEqual([await keeper.check(), world.passed], [true, 0]);
  });

  it('is known where the first attempt failed, from the change on', async () => {
    const { clock, world, keeper, run } = create();
    world.end = clock.now() + SECONDS;
    world.fails = true;
    await keeper.begin(SECONDS, clock.now());
    await run(1_500);
    world.fails = false;
    await run(2_000);
    assert.deepEqual([await keeper.check(), world.passed], [true, 0]);
  });

  it('has passed where it did during a change that failed', async () => {
    const { clock, world, keeper } = create();
    world.end = clock.now() + SECONDS;
    await keeper.begin(SECONDS, clock.now());
    await keeper.end();
    clock.pass(SECONDS + 1);
    assert.equal(world.passed, 0);
    await keeper.resume(SECONDS);
    assert.equal(world.passed, 1);
  });

  it('is kept where a change failed behind its rules, and left alone where it failed before', async () => {
    const { clock, world, keeper } = create();
    world.fails = true;
    await keeper.beginIfThere(SECONDS, clock.now());
    assert.equal(keeper.milliseconds, null);
    world.fails = false;
    world.end = clock.now() + SECONDS;
    await keeper.beginIfThere(SECONDS, clock.now());
    assert.equal(keeper.milliseconds, SECONDS);
  });

  it('is not moved once it is closed', async () => {
    const { clock, world, keeper, run } = create();
    await keeper.close();
    await keeper.begin(SECONDS, clock.now());
    await keeper.resume(SECONDS);
    await run(60_000);
    assert.equal(world.moves, 0);
  });

  it('begins with rules that have one, and ends with others, unless these are refused', async () => {
    const { world, keeper, run } = create();
    let refuses = false;
    const reconciler = withDeadline<number | null>(
      {
        async apply() {
          if (refuses) throw new Error('refused');
          return {
            change: { isEmpty: false, changesStructure: true, text: () => '' },
            leftBehind: null,
            enforcedAfter: 0,
            kernelMicroseconds: 0,
          };
        },
        verify: async () => [],
        holdsRules: async () => true,
      },
      keeper,
      (desired) => desired,
    );
    await reconciler.apply(null);
    assert.equal(keeper.milliseconds, null);
    await reconciler.apply(SECONDS);
    assert.equal(keeper.milliseconds, SECONDS);
    refuses = true;
    await assert.rejects(reconciler.apply(null), { message: 'refused' });
    const { moves } = world;
    await run(SECONDS);
    assert.ok(world.moves > moves);
    refuses = false;
    await reconciler.apply(null);
    assert.equal(keeper.milliseconds, null);
  });
});
