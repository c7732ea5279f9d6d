import assert from 'node:assert/strict';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { RepeatedCheck } from './keeper.ts';

describe('RepeatedCheck', () => {
  let time: ReturnType<typeof fakeClock>;
  let failures: Error[];
  let checks: number;
  let error: Error | null;
  let repeated: RepeatedCheck;

  beforeEach(() => {
    time = fakeClock();
    [failures, checks, error] = [[], 0, null];
    repeated = new RepeatedCheck({
      check: async () => {
        checks++;
        if (error !== null) throw error;
      },
      clock: time,
      failed: (one) => void failures.push(one),
    });
  });
  afterEach(() => repeated.close());

  /** Until it waits for its next check. */
  async function settled(): Promise<void> {
    while (time.waiting().length === 0) await new Promise(setImmediate);
  }

  it('checks at once, and every ten minutes', async () => {
    void repeated.start();
    await settled();
    assert.equal(checks, 1);
    time.pass(600_000);
    await settled();
    assert.equal(checks, 2);
  });

  it('checks when it is asked, once a second at most', async () => {
    void repeated.start();
    await settled();
    for (let asked = 0; asked < 5; asked++) repeated.checkNow();
    time.pass(999);
    await new Promise(setImmediate);
    assert.equal(checks, 1);
    time.pass(1);
    await settled();
    assert.equal(checks, 2);
  });

  it('tries again after a failure', async () => {
    error = new Error('no answer');
    void repeated.start();
    await settled();
    assert.deepEqual(failures, [error]);
    error = null;
    time.pass(1_000);
    await settled();
    assert.equal(checks, 2);
  });

  it('does nothing before its start, nor once it is closed', async () => {
    repeated.checkNow();
    assert.deepEqual([checks, time.waiting()], [0, []]);
    void repeated.start();
    await settled();
    await repeated.close();
    repeated.checkNow();
    time.pass(600_000);
    assert.equal(checks, 1);
  });
});
