import assert from 'node:assert/strict';
import { shortHash } from './hash.ts';

describe('hash', () => {
  it('is so many hex digits, and stays what it is: names on nodes depend on it', () => {
    assert.equal(shortHash(12, 'nodes {}', ['10.0.0.0/8']), '03f9fdeb04cc');
    assert.match(shortHash(7, 1), /^[0-9a-f]{7}$/);
  });

  it('tells parts apart, however they would run together', () => {
    assert.notEqual(shortHash(12, 'ab', 'c'), shortHash(12, 'a', 'bc'));
    assert.notEqual(shortHash(12, ['a'], ['b']), shortHash(12, ['a', 'b']));
  });
});
