import assert from 'node:assert/strict';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { keepOpen } from './back-off.ts';

function kept() {
  const clock = fakeClock();
  const state = { open: 0, opened: [] as boolean[], failures: [] as number[], refuses: false };
  let fail = (_: Error): void => {};
  const one = keepOpen({
    clock,
    open(failed, isAgain) {
      if (state.refuses) throw new Error('EPERM');
      fail = failed;
      state.open++;
      state.opened.push(isAgain);
      return {
        close() {
          state.open--;
        },
      };
    },
    failed: (_, retryIn) => state.failures.push(retryIn),
  });
  return { clock, state, one, fail: () => fail(new Error('ENETDOWN')) };
}

describe('keepOpen', () => {
  it('opens again after each failure, with growing waits, and closes what failed', async () => {
    const { clock, state, one, fail } = kept();
    for (const wait of [1_000, 2_000, 4_000]) {
      fail();
      fail();
      assert.equal(state.open, 0);
      clock.pass(wait);
      assert.equal(state.open, 1);
    }
    assert.deepEqual(
      [state.failures, state.opened],
      [
        [1_000, 2_000, 4_000],
        [false, true, true, true],
      ],
    );
    clock.pass(60_000);
    fail();
    assert.equal(state.failures.at(-1), 1_000, 'it lasted');
    await one.close();
    assert.deepEqual([clock.waiting(), state.open], [[], 0]);
  });

  it('takes a throw for a failure, and opens nothing once it is closed', async () => {
    const { clock, state, one, fail } = kept();
    state.refuses = true;
    fail();
    clock.pass(1_000);
    clock.pass(2_000);
    assert.deepEqual([state.open, state.failures], [0, [1_000, 2_000, 4_000]]);
    state.refuses = false;
    clock.pass(4_000);
    assert.equal(state.open, 1);
    await one.close();
    fail();
    assert.deepEqual([clock.waiting(), state.open], [[], 0]);
  });
});
