import assert from 'node:assert/strict';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { TenantTurns } from './tenant-turns.ts';

describe('TenantTurns', () => {
  /** @param takes milliseconds that a turn takes */
  function start(takes: () => number) {
    const clock = fakeClock();
    const turns: { readonly at: number; readonly changes: readonly string[] }[] = [];
    let applied: string[] = [];
    const tenants: TenantTurns = new TenantTurns({
      quiet: 15,
      clock,
      due: () =>
        tenants.take(() => {
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

  it('takes a fifth of the time where changes never end, and no rest is longer than 2 s', () => {
    for (const takes of [50, 300, 5_000]) {
      const { clock, turns, add } = start(() => takes);
      for (let count = 0; clock.now() < 200_000; count++) {
        add(`${count}`);
        clock.pass(10);
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

  it('rests only after a turn that had something', () => {
    const { clock, turns, add, tenants } = start(() => 10);
    tenants.take(() => clock.pass(1_000));
    add('a');
    clock.pass(15);
    assert.equal(turns.length, 1);
    tenants.close();
  });
});
