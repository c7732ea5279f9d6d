import assert from 'node:assert/strict';
import { ANSWERED, LONGEST_QUERY, NODE_ANSWER, NODE_QUESTION } from './node-question.ts';
import { decode } from './schema/shape.ts';

describe('questions to nodes', () => {
  it('are about what a node knows', () => {
    assert.deepEqual(decode(NODE_QUESTION, { about: 'records', query: 'lines=1', more: 1 }), {
      about: 'records',
      query: 'lines=1',
    });
    const wrong = [null, {}, { about: 'state', query: '' }, { about: 'names' }, { about: 1, query: '' }];
    for (const value of [...wrong, { about: 'names', query: 'x'.repeat(LONGEST_QUERY + 1) }])
      assert.ok(!NODE_QUESTION.accepts(value), JSON.stringify(value));
  });

  it('have answers of which nothing is taken but the id, and text or problem', () => {
    assert.deepEqual(decode(NODE_ANSWER, { id: '1', text: 'a 1', more: 1 }), { id: '1', text: 'a 1' });
    assert.deepEqual(decode(NODE_ANSWER, { id: '1', problem: 'too many' }), { id: '1', problem: 'too many' });
    const refused = { id: '1', problem: 'no number', isRefused: true } as const;
    assert.deepEqual(decode(NODE_ANSWER, refused), refused);
    const wrong = [null, {}, { id: '1' }, { id: '', text: '' }, { id: 'x'.repeat(65), text: '' }];
    for (const value of [...wrong, { id: '1', problem: 'x'.repeat(501) }, { text: 'a 1' }])
      assert.ok(!NODE_ANSWER.accepts(value), JSON.stringify(value));
    assert.ok(!ANSWERED.accepts({}));
  });
});
