import assert from 'node:assert/strict';
import { formatRevision, parseRevision } from './resume-log.ts';

describe('a revision', () => {
  it('is read as it was written, with and without a position', () => {
    for (const position of [[], [0], [35, 36, 9_007_199_254_740_991]]) {
      const revision = { epoch: 'a1b2', number: 17, position };
      assert.deepEqual(parseRevision(formatRevision(revision)), revision);
    }
    assert.equal(formatRevision({ epoch: 'e', number: 1, position: [35, 36] }), 'e.1.z-10');
  });

  it('is nothing else', () => {
    for (const text of [
      '',
      'e',
      '7',
      'e.',
      'e.1x',
      'e.1.',
      'e.1.-',
      'e.1.1--2',
      'e.1.A',
      `e.1.${'1-'.repeat(40)}1`,
    ])
      assert.equal(parseRevision(text), null, text);
  });
});
