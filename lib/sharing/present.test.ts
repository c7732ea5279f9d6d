import assert from 'node:assert/strict';
import { present } from './present.ts';

describe('present', () => {
  it('leaves out what is undefined, and nothing else', () => {
    const kept: { a?: number; b: null; c: string } = present({
      a: undefined as number | undefined,
      b: null,
      c: '',
    });
    assert.deepEqual(Object.keys(kept), ['b', 'c']);
    assert.deepEqual(present({ a: 0, b: false }), { a: 0, b: false });
  });
});
