import assert from 'node:assert/strict';
import { Turns } from './work-queue.ts';

describe('Turns', () => {
  let turns: Turns;
  beforeEach(() => {
    turns = new Turns();
  });

  function drain(): string[] {
    const keys: string[] = [];
    for (let next = turns.next(); next !== null; next = turns.next()) keys.push(next[0]);
    return keys;
  }

  it('gives every second turn to keys that no source alone has, the others by turns of the sources', () => {
    for (let i = 0; i < 4; i++) turns.add(`a${i}`, 'a');
    for (const key of ['b0', 'b1', 'c0']) turns.add(key, key.slice(0, 1));
    for (let i = 0; i < 3; i++) turns.add(`shared${i}`, null);
    assert.equal(turns.size, 10);
    assert.deepEqual(drain(), [
      ...['shared0', 'a0', 'shared1', 'b0', 'shared2', 'c0'],
      ...['a1', 'b1', 'a2', 'a3'],
    ]);
    assert.equal(turns.size, 0);
  });

  it('keeps the place of a key that is added again, unless its source is another one', () => {
    for (const key of ['p', 'q']) turns.add(key, 'a');
    turns.add('p', 'a');
    assert.deepEqual(drain(), ['p', 'q']);

    for (const key of ['p', 'q']) turns.add(key, 'a');
    for (let i = 0; i < 3; i++) turns.add(`b${i}`, 'b');
    turns.add('q', 'b');
    turns.add('q', 'b');
    assert.equal(turns.size, 5);
    // As one that both sources have, it does not wait for either.
    assert.deepEqual(turns.next(), ['q', null]);
  });

  it('forgets deleted keys', () => {
    turns.add('p', 'a');
    turns.add('q', null);
    turns.delete('p');
    turns.delete('none');
    assert.deepEqual([turns.has('p'), turns.has('q')], [false, true]);
    assert.deepEqual(drain(), ['q']);
    turns.add('r', 'a');
    turns.clear();
    assert.equal(turns.next(), null);
  });
});
