import assert from 'node:assert/strict';
import { CostQueue } from './fair-queue.ts';

describe('CostQueue', () => {
  let queue: CostQueue;
  let order: string[];
  beforeEach(() => {
    queue = new CostQueue();
    order = [];
  });
  const add = (source: string, cost: number, name = source): Promise<void> =>
    queue.run(source, cost, async () => {
      order.push(name);
      await new Promise(setImmediate);
    });

  it('runs one task at a time, and small ones before large ones of other sources', async () => {
    await Promise.all([
      ...Array.from({ length: 4 }, (_, index) => add('large', 8000, `large ${index}`)),
      ...Array.from({ length: 3 }, (_, index) => add('small', 5, `small ${index}`)),
    ]);
    assert.deepEqual(order, ['large 0', 'small 0', 'small 1', 'small 2', 'large 1', 'large 2', 'large 3']);
    assert.equal(queue.waiting, 0);
  });

  it('gives each source the same share, however many tasks it has', async () => {
    await Promise.all([
      ...Array.from({ length: 6 }, () => add('a', 100)),
      ...Array.from({ length: 3 }, () => add('b', 100)),
    ]);
    assert.deepEqual(order, ['a', 'b', 'a', 'b', 'a', 'b', 'a', 'a', 'a']);
  });

  /** Adds a large task, and small ones as long as it waits; returns when all have run. */
  async function besideSmallOnes(cost: number): Promise<void> {
    const keepOneWaiting = async (): Promise<void> => {
      for (let index = 0; index < 1500 && !order.includes('large'); index++) await add('small', cost);
    };
    await Promise.all([add('a', 1), add('large', 1000), keepOneWaiting(), keepOneWaiting()]);
  }

  it('runs a large task, however many small ones arrive', async () => {
    await besideSmallOnes(1);
    assert.ok(order.indexOf('large') < 1100, `after ${order.indexOf('large')} tasks`);
  });

  it('runs a large task, however many arrive that cost nothing themselves', async () => {
    queue = new CostQueue(10);
    await besideSmallOnes(0);
    assert.ok(order.indexOf('large') < 110, `after ${order.indexOf('large')} tasks`);
  });

  it('goes on after a task that fails', async () => {
    await assert.rejects(
      queue.run('a', 1, () => Promise.reject(new Error('x'))),
      /x/,
    );
    await add('b', 1);
    assert.deepEqual(order, ['b']);
  });
});
