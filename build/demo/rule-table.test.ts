import assert from 'node:assert/strict';
import { changedLines, lineDiff } from './rule-table.ts';

const text = (before: string, after: string): string =>
  lineDiff([...before], [...after])
    .map(({ sign, line }) => `${sign}${line}`)
    .join('');

describe('lineDiff', () => {
  it('keeps common lines, and removes before it adds', () => {
    assert.equal(text('abcd', 'abcd'), ' a b c d');
    assert.equal(text('abcd', 'axcd'), ' a-b+x c d');
    assert.equal(text('', 'ab'), '+a+b');
    assert.equal(text('ab', ''), '-a-b');
    assert.equal(text('abc', 'bcd'), '-a b c+d');
  });

  it('can leave out common lines', () => {
    assert.deepEqual(changedLines(['a', 'b'], ['a', 'c']), [
      { sign: '-', line: 'b' },
      { sign: '+', line: 'c' },
    ]);
  });
});
