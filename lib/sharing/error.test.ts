import assert from 'node:assert/strict';
import { errorCode, errorMessage, toError } from './error.ts';

describe('a caught value', () => {
  it('is an Error, whatever was thrown', () => {
    const error = new TypeError('no');
    assert.equal(toError(error), error);
    assert.equal(toError('no').message, 'no');
    assert.equal(toError(undefined).message, 'undefined');
  });

  it('has a message, and a code where the system gave one', () => {
    assert.equal(errorMessage(new Error('no')), 'no');
    assert.equal(errorMessage(7), '7');
    assert.equal(errorCode(Object.assign(new Error('no'), { code: 'ENOENT' })), 'ENOENT');
    for (const without of [new Error('no'), { code: 'ENOENT' }, null])
      assert.equal(errorCode(without), undefined);
  });
});
