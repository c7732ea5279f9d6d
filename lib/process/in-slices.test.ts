import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import type { Stepwise } from '../sharing/stepwise.ts';
import { inSlices } from './in-slices.ts';

describe('inSlices', () => {
  const clock = fakeClock();

  function* work(steps: number): Stepwise<string> {
    for (let i = 0; i < steps; i++) {
      clock.pass(10);
      yield;
    }
    return 'done';
  }

  it('lets others go on whenever the work took 25 ms', async () => {
    let [turns, isDone] = [0, false];
    const others = (async () => {
      for (; !isDone; turns++) await nextTurn();
    })();
    assert.equal(await inSlices(work(30), clock), 'done');
    isDone = true;
    await others;
    assert.ok(turns >= 10, `${turns} turns`);
  });

  it('throws what the work throws', async () => {
    const failing = function* (): Stepwise<void> {
      yield* work(5);
      throw new Error('a fault');
    };
    await assert.rejects(inSlices(failing(), clock), /a fault/);
  });
});
