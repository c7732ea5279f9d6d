import assert from 'node:assert/strict';
import { BodyRoom } from './body-room.ts';

describe('BodyRoom', () => {
  it('refuses the body that asks for more, if its source has most', () => {
    const room = new BodyRoom(100);
    const refused: string[] = [];
    const first = room.enter('a', () => refused.push('first'));
    const second = room.enter('a', () => refused.push('second'));
    assert.equal(first.take(90), true);
    assert.equal(second.take(20), false);
    assert.deepEqual(refused, ['second']);
    first.leave();
    assert.equal(room.enter('a', () => {}).take(100), true);
  });

  it('refuses the largest body of the source that has most, for a source that has less', () => {
    const room = new BodyRoom(100);
    const refused: string[] = [];
    const [small, large] = [
      room.enter('a', () => refused.push('small')),
      room.enter('a', () => refused.push('large')),
    ];
    assert.ok(small.take(30) && large.take(60));
    assert.equal(room.enter('b', () => refused.push('b')).take(20), true);
    assert.deepEqual(refused, ['large']);
    assert.equal(large.take(1), false);
    large.leave();
    assert.equal(room.enter('c', () => refused.push('c')).take(50), true, 'its room was given back once');
    assert.deepEqual(refused, ['large']);
  });
});
