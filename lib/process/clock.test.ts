import assert from 'node:assert/strict';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { pause } from './clock.ts';

describe('a pause', () => {
  it('ends when its time is over', async () => {
    const clock = fakeClock();
    let isOver = false;
    const ending = pause(clock, 100, new AbortController().signal).then(() => {
      isOver = true;
    });
    clock.pass(99);
    await Promise.resolve();
    assert.ok(!isOver);
    clock.pass(1);
    await ending;
  });

  it('ends when the signal aborts, also before it began, and leaves no timer', async () => {
    const clock = fakeClock();
    const controller = new AbortController();
    const ending = pause(clock, 100, controller.signal);
    controller.abort();
    await ending;
    await pause(clock, 100, controller.signal);
    assert.deepEqual(clock.waiting(), []);
  });
});
