import assert from 'node:assert/strict';
import { LONGEST_QUERY, parseAnswered, parseNodeAnswer, parseNodeQuestion } from './node-question.ts';

describe('questions to nodes', () => {
  it('are about what a node knows', () => {
    assert.deepEqual(parseNodeQuestion({ about: 'records', query: 'lines=1', more: 1 }), {
      about: 'records',
      query: 'lines=1',
    });
    const wrong = [null, {}, { about: 'state', query: '' }, { about: 'names' }, { about: 1, query: '' }];
    for (const value of [...wrong, { about: 'names', query: 'x'.repeat(LONGEST_QUERY + 1) }])
      assert.equal(parseNodeQuestion(value), null);
  });

  it('have answers of which nothing is taken but the id, and text or problem', () => {
    assert.deepEqual(parseNodeAnswer({ id: '1', text: 'a 1', more: 1 }), { id: '1', text: 'a 1' });
    assert.deepEqual(parseNodeAnswer({ id: '1', problem: 'too many' }), { id: '1', problem: 'too many' });
    const refused = { id: '1', problem: 'no number', isRefused: true } as const;
    assert.deepEqual(parseNodeAnswer(refused), refused);
    const wrong = [null, {}, { id: '1' }, { id: '', text: '' }, { id: 'x'.repeat(65), text: '' }];
    for (const value of [...wrong, { id: '1', problem: 'x'.repeat(501) }, { text: 'a 1' }])
      assert.equal(parseNodeAnswer(value), null);
    assert.equal(parseAnswered({}), null);
  });
});
