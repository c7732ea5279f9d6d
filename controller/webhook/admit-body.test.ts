import assert from 'node:assert/strict';
import { BodyRoom } from './admit-body.ts';

const KB = 1024;
const kilobytes = (count: number): Buffer => Buffer.allocUnsafeSlow(count * KB);

describe('BodyRoom', () => {
  it('refuses the body that asks for more, if its source has most', () => {
    const room = new BodyRoom(100 * KB);
    const refused: string[] = [];
    const first = room.enter('a', () => refused.push('first'));
    const second = room.enter('a', () => refused.push('second'));
    assert.equal(first.add(kilobytes(90)), true);
    assert.equal(second.add(kilobytes(20)), false);
    assert.deepEqual(refused, ['second']);
    first.leave();
    assert.equal(room.enter('a', () => {}).add(kilobytes(100)), true);
  });

  it('refuses the largest body of the source that has most, for a source that has less', () => {
    const room = new BodyRoom(100 * KB);
    const refused: string[] = [];
    const [small, large] = [
      room.enter('a', () => refused.push('small')),
      room.enter('a', () => refused.push('large')),
    ];
    assert.ok(small.add(kilobytes(30)) && large.add(kilobytes(60)));
    assert.equal(room.enter('b', () => refused.push('b')).add(kilobytes(20)), true);
    assert.deepEqual(refused, ['large']);
    assert.equal(large.add(kilobytes(1)), false);
    large.leave();
    assert.equal(
      room.enter('c', () => refused.push('c')).add(kilobytes(50)),
      true,
      'its room was given back once',
    );
    assert.deepEqual(refused, ['large']);
  });

  it('counts small chunks for the memory that they need', () => {
    const reading = new BodyRoom(100 * KB).enter('a', () => {});
    for (let count = 0; count < 100; count++) assert.equal(reading.add(Buffer.from('x')), true);
    assert.equal(reading.add(Buffer.from('x')), false);
  });

  it('frees the memory of a body, and of nothing else', () => {
    const reading = new BodyRoom(100 * KB).enter('a', () => {});
    const chunk = kilobytes(20);
    const part = kilobytes(20).subarray(1);
    assert.ok(reading.add(chunk) && reading.add(part));
    assert.equal(chunk.length, 20 * KB);
    reading.leave();
    assert.deepEqual([chunk.length, part.length], [0, 20 * KB - 1]);
  });
});
