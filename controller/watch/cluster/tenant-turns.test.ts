import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { TenantTurns } from './tenant-turns.ts';

describe('TenantTurns', () => {
  /** Settled promises are seen. */
  const settled = async (): Promise<void> => {
    for (let i = 0; i < 5; i++) await null;
  };

  /** @param takes milliseconds that a turn takes */
  function start(takes: () => number) {
    const clock = fakeClock();
    const turns: { readonly at: number; readonly changes: readonly string[] }[] = [];
    let applied: string[] = [];
    const tenants: TenantTurns = new TenantTurns({
      quiet: 15,
      clock,
      due: () =>
        void tenants.run(async () => {
          turns.push({ at: clock.now(), changes: applied });
          applied = [];
          clock.pass(takes());
        }),
    });
    const add = (name: string): void => tenants.add(() => void applied.push(name));
    return { clock, turns, tenants, add };
  }

  it('applies a change soon, with those that come meanwhile, in their order', () => {
    const { clock, turns, add, tenants } = start(() => 50);
    clock.pass(1_000);
    add('a');
    clock.pass(10);
    add('b');
    assert.deepEqual([turns.length, tenants.isWaiting], [0, true]);
    clock.pass(5);
    assert.deepEqual(turns, [{ at: 1_015, changes: ['a', 'b'] }]);
    assert.equal(tenants.isWaiting, false);
  });

  it('takes a fifth of the time where changes never end, and no rest is longer than 2 s', async () => {
    for (const takes of [50, 300, 5_000]) {
      const { clock, turns, add } = start(() => takes);
      for (let count = 0; clock.now() < 200_000; count++) {
        add(`${count}`);
        clock.pass(10);
        await settled();
      }
      const waits = turns.map(({ at }, i) => at - (turns[i - 1]?.at ?? at) - takes).slice(1);
      const longest = Math.min(2_000, 4 * takes);
      assert.ok(waits.length > 5);
      assert.ok(
        waits.every((wait) => wait >= longest && wait <= longest + 20),
        `${waits}`,
      );
      assert.equal(
        new Set(turns.flatMap(({ changes }) => changes)).size,
        turns.flatMap((one) => one.changes).length,
      );
    }
  });

  it('rests after a turn also from changes that came during it', async () => {
    const clock = fakeClock();
    const tenants: TenantTurns = new TenantTurns({ quiet: 15, clock, due: () => void tenants.run(turn) });
    const ended: number[] = [];
    const turn = async (): Promise<void> => {
      await nextTurn();
      clock.pass(100);
      ended.push(clock.now());
      if (ended.length === 1) assert.equal(tenants.isWaiting, true);
    };
    tenants.add(() => {});
    clock.pass(15);
    tenants.add(() => {});
    clock.pass(100);
    while (ended.length === 0) await nextTurn();
    await settled();
    assert.deepEqual(clock.waiting(), [800]);
    clock.pass(800);
    while (ended.length === 1) await nextTurn();
    assert.deepEqual([ended, tenants.isWaiting], [[215, 1_115], false]);
  });

  it('rests only after a turn that had something', async () => {
    const { clock, turns, add, tenants } = start(() => 10);
    await tenants.run(async () => clock.pass(1_000));
    add('a');
    clock.pass(15);
    assert.equal(turns.length, 1);
    tenants.close();
  });
});
