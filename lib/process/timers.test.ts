import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import type { Clock } from './clock.ts';
import { Debounce } from './timers.ts';

/** A clock that the test advances. */
function fakeClock(): Clock & { pass(milliseconds: number): Promise<void> } {
  let time = 0;
  let timers: { at: number; callback: () => void }[] = [];
  return {
    now: () => time,
    after(milliseconds, callback) {
      const timer = { at: time + milliseconds, callback };
      timers.push(timer);
      return () => {
        timers = timers.filter((one) => one !== timer);
      };
    },
    async pass(milliseconds) {
      for (const end = time + milliseconds; time < end; time++) {
        const due = timers.filter(({ at }) => at <= time + 1);
        timers = timers.filter((one) => !due.includes(one));
        for (const { callback } of due) callback();
        await turn();
      }
    },
  };
}

describe('debounce', () => {
  const TIMES = { quiet: 15, longest: 100 };

  it('runs once after a burst, after the quiet time', async () => {
    const clock = fakeClock();
    const ran: number[] = [];
    const run = new Debounce(async () => void ran.push(clock.now()), TIMES, clock);
    for (let i = 0; i < 5; i++) {
      run.trigger();
      await clock.pass(10);
    }
    await clock.pass(200);
    assert.equal(ran.length, 1);
    assert.ok((ran[0] ?? 0) >= 50 && (ran[0] ?? 0) <= 56, `${ran}`);
  });

  it('runs at the longest wait, however long the burst lasts', async () => {
    const clock = fakeClock();
    const ran: number[] = [];
    const run = new Debounce(async () => void ran.push(clock.now()), TIMES, clock);
    for (let i = 0; i < 1000; i++) {
      run.trigger();
      await clock.pass(1);
    }
    assert.ok(ran.length >= 9 && ran.length <= 11, `${ran.length} runs in a second`);
    const waits = ran.map((at, i) => at - (ran[i - 1] ?? 0));
    assert.ok(Math.max(...waits) <= 102, `${waits}`);
  });

  it('combines all triggers during a run into one further run', async () => {
    const clock = fakeClock();
    let runs = 0;
    let finish = (): void => {};
    const task = (): Promise<void> => {
      runs++;
      return new Promise((resolve) => {
        finish = resolve;
      });
    };
    const run = new Debounce(task, TIMES, clock);
    run.trigger();
    await clock.pass(20);
    assert.equal(runs, 1);
    for (let i = 0; i < 500; i++) {
      run.trigger();
      await clock.pass(1);
    }
    assert.equal(runs, 1, 'one at a time');
    await clock.pass(20);
    finish();
    await clock.pass(5);
    assert.equal(runs, 2);
    finish();
    await clock.pass(500);
    assert.equal(runs, 2, 'and none is left over');
  });
});
