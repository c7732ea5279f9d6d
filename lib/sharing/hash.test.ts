import assert from 'node:assert/strict';
import { shortHash } from './hash.ts';

describe('shortHash', () => {
  it('has the given number of hex digits, and stays stable, because names on nodes depend on it', () => {
    assert.equal(shortHash(12, 'nodes {}', ['10.0.0.0/8']), '03f9fdeb04cc');
    assert.match(shortHash(7, 1), /^[0-9a-f]{7}$/);
  });

  it('distinguishes parts that concatenate to the same text', () => {
    assert.notEqual(shortHash(12, 'ab', 'c'), shortHash(12, 'a', 'bc'));
    assert.notEqual(shortHash(12, ['a'], ['b']), shortHash(12, ['a', 'b']));
  });
});
