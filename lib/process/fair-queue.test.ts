import assert from 'node:assert/strict';
import { FairQueue, QueueFullError } from './fair-queue.ts';

describe('FairQueue', () => {
  /** Tasks that end when they are told to; `started` has their names in order. */
  function tasks(queue: FairQueue) {
    const started: string[] = [];
    const ends: (() => void)[] = [];
    const settled: Promise<PromiseSettledResult<string>>[] = [];
    const add = (source: string, name: string): void => {
      const task = queue.run(source, () => {
        started.push(name);
        return new Promise<string>((resolve) => ends.push(() => resolve(name)));
      });
      settled.push(Promise.allSettled([task]).then(([result]) => result));
    };
    const endOne = async (): Promise<void> => {
      ends.shift()?.();
      await new Promise(setImmediate);
    };
    return { started, settled, add, endOne };
  }

  it('runs as many tasks as it may at once, and the sources by turns', async () => {
    const { started, add, endOne } = tasks(new FairQueue({ atOnce: 2, most: 10 }));
    for (const name of ['a1', 'a2', 'a3', 'a4', 'a5']) add('a', name);
    add('b', 'b1');
    add('c', 'c1');
    add('b', 'b2');
    assert.deepEqual(started, ['a1', 'a2']);
    for (let count = 0; count < 8; count++) await endOne();
    assert.deepEqual(started, ['a1', 'a2', 'a3', 'b1', 'c1', 'a4', 'b2', 'a5']);
  });

  it('refuses the newest task of the source with the most, when it is full', async () => {
    const { started, settled, add, endOne } = tasks(new FairQueue({ atOnce: 1, most: 3 }));
    for (const name of ['a1', 'a2', 'a3', 'a4']) add('a', name);
    add('b', 'b1');
    for (let count = 0; count < 5; count++) await endOne();
    assert.deepEqual(started, ['a1', 'a2', 'b1', 'a3']);
    const results = await Promise.all(settled);
    assert.deepEqual(
      results.map((result) => (result.status === 'fulfilled' ? result.value : result.reason.name)),
      ['a1', 'a2', 'a3', QueueFullError.name, 'b1'],
    );
  });

  it('goes on after a task that failed, and begins at once when none runs', async () => {
    const queue = new FairQueue({ atOnce: 1, most: 1 });
    await assert.rejects(
      queue.run('a', async () => {
        throw new Error('down');
      }),
      /down/,
    );
    assert.equal(await queue.run('a', async () => 'again'), 'again');
  });
});
