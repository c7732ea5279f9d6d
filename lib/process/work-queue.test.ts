import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import { WorkQueue, type WorkQueueOptions } from './work-queue.ts';

type Options = Partial<WorkQueueOptions<string>>;

/** A queue whose work lasts so many milliseconds; 0: it is done at once. */
function bed(options: Options = {}, lasts = 0) {
  const clock = fakeClock();
  const started: string[] = [];
  const queue = new WorkQueue({
    clock,
    work(key, source) {
      started.push(`${key}${source === null ? '' : `/${source}`}@${clock.now()}`);
      if (lasts > 0) return new Promise<void>((resolve) => void clock.after(lasts, resolve));
    },
    ...options,
  });
  return {
    clock,
    queue,
    /** The work that started since the last call. */
    async pass(milliseconds: number): Promise<string[]> {
      await passSlowly(clock, milliseconds);
      return started.splice(0);
    },
  };
}

async function passSlowly(clock: FakeClock, milliseconds: number): Promise<void> {
  for (let i = 0; i <= milliseconds; i++) {
    if (i > 0) clock.pass(1);
    await turn();
    for (; clock.waiting()[0] === 0; await turn()) clock.pass(0);
  }
}

describe('WorkQueue', () => {
  it('works on a key that was added several times once, and not within the call', async () => {
    const { queue, pass } = bed();
    let isWithin = true;
    const other = new WorkQueue({ clock: fakeClock(), work: () => assert.ok(!isWithin) });
    other.add('k');
    isWithin = false;
    for (const key of ['a', 'b', 'a']) queue.add(key);
    assert.deepEqual([queue.size, queue.has('a')], [2, true]);
    assert.deepEqual(await pass(0), ['a@0', 'b@0']);
    assert.deepEqual([queue.size, queue.has('a')], [0, false]);
    assert.deepEqual(await pass(1_000), []);
  });

  it('lets the earliest time of a key count', async () => {
    const { queue, pass } = bed();
    queue.addAfter('a', 30);
    queue.addAfter('a', 10);
    queue.addAfter('a', 20);
    queue.addAfter('b', 15);
    assert.deepEqual(await pass(100), ['a@10', 'b@15']);
  });

  it('works again on a key that is added during its work, never twice at the same time', async () => {
    const { queue, pass } = bed({ atOnce: 2 }, 10);
    queue.add('a');
    assert.deepEqual(await pass(5), ['a@0']);
    queue.add('a');
    assert.equal(queue.has('a'), true);
    assert.deepEqual(await pass(3), []);
    assert.deepEqual(await pass(10), ['a@10']);
    assert.deepEqual(await pass(100), []);
  });

  it('works on so many keys at the same time, the sources by turns', async () => {
    const { queue, pass } = bed({ atOnce: 2 }, 10);
    for (const key of ['a', 'b', 'c']) queue.add(key, 'x');
    queue.add('d', 'y');
    queue.add('e');
    queue.add('b', 'y');
    assert.deepEqual(await pass(9), ['b@0', 'a/x@0']);
    assert.deepEqual(await pass(1), ['e@10', 'd/y@10']);
    assert.deepEqual(await pass(10), ['c/x@20']);
  });

  it('rests between two works', async () => {
    const { queue, pass } = bed({ between: 100 }, 30);
    for (const key of ['a', 'b']) queue.add(key);
    assert.deepEqual(await pass(150), ['a@0', 'b@100']);
    queue.add('c');
    assert.deepEqual(await pass(150), ['c@200']);
    queue.add('d');
    assert.deepEqual(await pass(10), ['d@300']);
  });

  it('waits longer after each failure of a key, until it is forgotten', async () => {
    const { queue, pass } = bed({ waits: { first: 10, longest: 40 } });
    const waits = ['a', 'a', 'b', 'a', 'a'].map((key) => queue.addRateLimited(key));
    assert.deepEqual(waits, [10, 20, 10, 40, 40]);
    queue.forget('a');
    assert.equal(queue.addRateLimited('a'), 10);
    assert.deepEqual(await pass(100), ['a@10', 'b@10']);
  });

  it('delays all keys where they fail as one', async () => {
    const { queue, pass } = bed({ waits: { first: 10, longest: 40 }, failsAsOne: true });
    assert.equal(queue.addRateLimited('a'), 10);
    assert.equal(queue.addRateLimited('b'), 20);
    queue.add('c');
    assert.deepEqual(await pass(100), ['a@20', 'c@20', 'b@20']);
    queue.forget('c');
    assert.equal(queue.addRateLimited('a'), 10);
  });

  it('drops what waits, and ends with the work in progress', async () => {
    const { clock, queue, pass } = bed({}, 10);
    for (const key of ['a', 'b', 'c']) queue.add(key);
    queue.addAfter('d', 5);
    queue.remove('b');
    assert.deepEqual(await pass(0), ['a@0']);
    let isCleared = false;
    const cleared = queue.clear().then(() => {
      isCleared = true;
    });
    assert.deepEqual([queue.size, await pass(9), isCleared], [0, [], false]);
    assert.deepEqual(await pass(1), []);
    await cleared;
    queue.add('e');
    assert.deepEqual(await pass(20), ['e@10']);
    queue.add('f');
    await queue.close();
    queue.add('g');
    assert.deepEqual([await pass(100), clock.waiting()], [[], []]);
  });

  it('goes on after a work that threw', () => {
    const clock = fakeClock();
    const started: string[] = [];
    const queue = new WorkQueue({
      clock,
      work(key) {
        started.push(key);
        if (key === 'a') throw new Error('a defect');
      },
    });
    for (const key of ['a', 'b']) queue.add(key);
    assert.throws(() => clock.pass(0), /a defect/);
    clock.pass(0);
    assert.deepEqual(started, ['a', 'b']);
  });

  it('does the work of each add, not before its time, each key alone, so many at once', async () => {
    const KEY = fc.constantFrom('a', 'b', 'c');
    const STEP = fc.record({ key: KEY, after: fc.nat(20), pass: fc.nat(6), fails: fc.boolean() });
    const LIMITS = fc.record({
      atOnce: fc.integer({ min: 1, max: 3 }),
      between: fc.nat(3),
      lasts: fc.nat(4),
    });
    await fc.assert(
      fc.asyncProperty(LIMITS, fc.array(STEP, { maxLength: 20 }), async ({ lasts, ...limits }, steps) => {
        const clock = fakeClock();
        const due = new Map<string, number>();
        const running = new Set<string>();
        let last = Number.NEGATIVE_INFINITY;
        const queue = new WorkQueue({
          clock,
          ...limits,
          async work(key) {
            assert.ok(!running.has(key) && running.size < limits.atOnce);
            assert.ok(clock.now() >= (due.get(key) ?? Number.POSITIVE_INFINITY));
            assert.ok(clock.now() >= last + limits.between);
            last = clock.now();
            running.add(key);
            due.delete(key);
            if (lasts > 0) await new Promise<void>((resolve) => void clock.after(lasts, resolve));
            running.delete(key);
          },
        });
        for (const { key, after, pass, fails } of steps) {
          const wait = fails ? queue.addRateLimited(key) : after;
          if (!fails) queue.addAfter(key, after);
          due.set(key, Math.min(due.get(key) ?? Number.POSITIVE_INFINITY, clock.now() + wait));
          await passSlowly(clock, pass);
        }
        const all = Math.max(clock.now(), ...due.values()) + 3 * (limits.between + lasts);
        await passSlowly(clock, all - clock.now());
        assert.deepEqual([due.size, running.size, queue.size], [0, 0, 0]);
      }),
      { numRuns: 60 },
    );
  });
});
