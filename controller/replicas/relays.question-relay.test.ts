import assert from 'node:assert/strict';
import type { PassedQuestion, QuestionAnswer } from '../../apis/node-question.ts';
import { QuestionRelay } from './relays.ts';

const NAMES = { about: 'names', query: '' } as const;

describe('QuestionRelay', () => {
  const sent: [string, PassedQuestion][] = [];
  /** Absent: the controller can't be reached. */
  const answers = new Map<string, QuestionAnswer | null>();
  const relay = new QuestionRelay({
    peers: () => ['x', 'y', 'z'],
    async send(peer, passed) {
      sent.push([peer, passed]);
      const answer = answers.get(peer);
      return answer === undefined ? assert.fail('no route') : answer;
    },
  });
  beforeEach(() => {
    sent.length = 0;
    answers.clear();
  });

  it('takes the answer of the controller that has one', async () => {
    answers.set('y', null).set('z', { text: 'a 1\n' });
    assert.deepEqual(await relay.ask('a', NAMES), { text: 'a 1\n' });
    assert.deepEqual(sent[1], ['y', { kind: 'question', node: 'a', ...NAMES }]);
    answers.delete('z');
    assert.equal(await relay.ask('a', NAMES), null);
  });

  it('passes an answer on to all', () => {
    const answer = { id: '1', text: 'a 1\n' };
    relay.answered('a', answer);
    assert.deepEqual(
      sent,
      ['x', 'y', 'z'].map((peer) => [peer, { kind: 'answer', node: 'a', answer }]),
    );
  });
});
