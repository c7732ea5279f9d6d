import assert from 'node:assert/strict';
import type { PolicyStatus } from '../../apis/policy-status.ts';
import { StatusQueue } from './status-queue.ts';

const STATUS: PolicyStatus = {
  phase: 'Realized',
  observedGeneration: 1,
  currentNodesRealized: 1,
  desiredNodesRealized: 1,
  conditions: [],
};

describe('StatusQueue', () => {
  let queue: StatusQueue;
  beforeEach(() => {
    queue = new StatusQueue();
  });
  const put = (name: string, cause: string | null, at = 0): void =>
    queue.put(name, { uid: name, status: STATUS, cause, at });
  const takeAll = (now = 0): string[] => {
    const names: string[] = [];
    for (let next = queue.next(now); next !== null; next = queue.next(now)) names.push(next[0]);
    return names;
  };

  it('takes every second status from those that no node alone caused, the others by turns of the nodes', () => {
    for (let i = 0; i < 4; i++) put(`a${i}`, 'a');
    for (const name of ['b0', 'b1', 'c0']) put(name, name.slice(0, 1));
    for (let i = 0; i < 3; i++) put(`shared${i}`, null);
    assert.equal(queue.size, 10);
    assert.deepEqual(takeAll(), [
      ...['shared0', 'a0', 'shared1', 'b0', 'shared2', 'c0'],
      ...['a1', 'b1', 'a2', 'a3'],
    ]);
    assert.equal(queue.size, 0);
  });

  it('keeps the place of a status that is replaced, unless its cause is another one', () => {
    for (const name of ['p', 'q']) put(name, 'a');
    put('p', 'a', 5);
    assert.equal(queue.get('p')?.at, 5);
    assert.deepEqual(takeAll(5), ['p', 'q']);

    for (const name of ['p', 'q']) put(name, 'a');
    for (let i = 0; i < 3; i++) put(`b${i}`, 'b');
    put('q', 'b');
    put('q', 'b');
    assert.equal(queue.size, 5);
    // As one that both nodes caused, it does not wait for either.
    assert.equal(queue.next(0)?.[0], 'q');
  });

  it('takes what is due only, and knows when the next one is', () => {
    put('late', 'a', 20);
    put('soon', 'a', 10);
    put('latest', null, 30);
    assert.equal(queue.next(9), null);
    assert.equal(queue.earliest(), 10);
    assert.deepEqual(takeAll(20), ['late', 'soon']);
    assert.equal(queue.earliest(), 30);
  });

  it('forgets deleted policies', () => {
    put('p', 'a');
    put('q', null);
    queue.delete('p');
    queue.delete('none');
    assert.deepEqual(takeAll(), ['q']);
    assert.equal(queue.get('p'), undefined);
    assert.equal(queue.earliest(), Number.POSITIVE_INFINITY);
  });
});
