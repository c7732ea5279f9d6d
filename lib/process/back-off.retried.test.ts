import assert from 'node:assert/strict';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { Retried } from './back-off.ts';

const settled = (): Promise<void> => new Promise(setImmediate);

/** Runs that end when the test says so, with an error or without. */
function retried() {
  const clock = fakeClock();
  const runs: string[] = [];
  const failures: string[] = [];
  const running: ((error?: Error) => void)[] = [];
  const one = new Retried<readonly string[]>({
    clock,
    waits: { first: 1_000, longest: 4_000 },
    run: (work) => {
      runs.push(work.join(' '));
      return new Promise((resolve, reject) =>
        running.push((error) => (error === undefined ? resolve() : reject(error))),
      );
    },
    merge: (earlier, later) => [...earlier, ...later],
    failed: (error, retryIn) => void failures.push(`${error.message} ${retryIn}`),
  });
  const end = async (error?: Error): Promise<void> => {
    running.shift()?.(error);
    await settled();
  };
  return { one, clock, runs, failures, end };
}

describe('Retried', () => {
  it('does all that comes during a run in the next one', async () => {
    const { one, runs, end } = retried();
    const first = one.add(['a']);
    await settled();
    const others = Array.from({ length: 100 }, (_, i) => one.add([`${i}`]));
    await settled();
    assert.deepEqual(runs, ['a']);
    await end();
    await first;
    assert.equal(runs[1]?.split(' ').length, 100);
    await end();
    await Promise.all(others);
    assert.equal(runs.length, 2);
  });

  it('does again what failed, before what came later, after longer and longer waits', async () => {
    const { one, clock, runs, failures, end } = retried();
    const first = one.add(['a']);
    await settled();
    await end(new Error('busy'));
    await first;
    assert.deepEqual(clock.waiting(), [1_000]);
    clock.pass(1_000);
    await settled();
    await end(new Error('busy'));
    assert.deepEqual([runs, failures, clock.waiting()], [['a', 'a'], ['busy 1000', 'busy 2000'], [2_000]]);
    // New work does not wait, and takes the old with it.
    const second = one.add(['b']);
    await settled();
    assert.deepEqual([runs.at(-1), clock.waiting()], ['a b', []]);
    await end();
    await second;
    assert.deepEqual(clock.waiting(), []);
    void one.add(['c']);
    await settled();
    await end(new Error('again'));
    assert.deepEqual([runs.at(-1), failures.at(-1)], ['c', 'again 1000']);
  });

  it('begins nothing after close, which waits for the run in progress', async () => {
    const { one, clock, runs, failures, end } = retried();
    void one.add(['a']);
    await settled();
    let isClosed = false;
    const closed = one.close().then(() => {
      isClosed = true;
    });
    await settled();
    assert.equal(isClosed, false);
    await end(new Error('cut'));
    await closed;
    await one.add(['b']);
    assert.deepEqual([runs, failures, clock.waiting()], [['a'], [], []]);
  });
});
