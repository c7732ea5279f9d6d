import assert from 'node:assert/strict';
import type { NodeAnswer, QuestionAnswer } from '../../apis/node-question.ts';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import { NodeQuestions } from './node-questions.ts';

const NAMES = { about: 'names', query: '' } as const;

describe('NodeQuestions', () => {
  let clock: FakeClock;
  let sent: [node: string, id: string][];
  let passedOn: unknown[];
  let elsewhere: QuestionAnswer | null;
  let questions: NodeQuestions;

  beforeEach(() => {
    clock = fakeClock();
    [sent, passedOn, elsewhere] = [[], [], null];
    questions = new NodeQuestions({
      clock,
      send: (node, { id }) => node !== 'away' && sent.push([node, id]) > 0,
      elsewhere: {
        async ask(node) {
          passedOn.push(node);
          return elsewhere;
        },
        answered: (node, answer) => void passedOn.push([node, answer]),
      },
    });
  });

  const answer = (text: string): NodeAnswer => ({ id: sent.at(-1)?.[1] ?? '', text });

  it('asks an agent the same once at a time, and again later', async () => {
    const both = [questions.ask('a', NAMES), questions.askHere('a', NAMES)];
    questions.answered('a', answer('x 1\n'));
    assert.deepEqual(await Promise.all(both), [{ text: 'x 1\n' }, { text: 'x 1\n' }]);
    assert.deepEqual([sent.length, clock.waiting()], [1, []]);
    const next = questions.ask('a', NAMES);
    questions.answered('a', answer('x 2\n'));
    assert.deepEqual([await next, sent.length, passedOn], [{ text: 'x 2\n' }, 2, []]);
  });

  it('takes no answer of another agent, or to another question: it passes them on', async () => {
    const scraped = questions.ask('a', NAMES);
    questions.answered('b', answer('of b'));
    questions.answered('a', { id: 'other', text: 'of before' });
    questions.answeredHere('b', answer('of b'));
    assert.deepEqual(passedOn, [
      ['b', answer('of b')],
      ['a', { id: 'other', text: 'of before' }],
    ]);
    questions.answeredHere('a', answer('of a'));
    assert.deepEqual(await scraped, { text: 'of a' });
  });

  it('asks an agent four questions at a time', async () => {
    for (const lines of ['1', '2', '3', '4']) void questions.ask('a', { about: 'records', query: lines });
    assert.deepEqual(await questions.ask('a', NAMES), { problem: '4 questions to a are open; try again' });
    void questions.ask('b', NAMES);
    assert.equal(sent.length, 5);
    clock.pass(4_000);
  });

  it('gives up after four seconds', async () => {
    const scraped = questions.ask('a', NAMES);
    clock.pass(4_000);
    assert.deepEqual(await scraped, { problem: 'the agent of a did not answer in 4 s' });
  });

  it('asks other controllers for agents that are not connected here', async () => {
    assert.equal(await questions.askHere('away', NAMES), null);
    const problem = 'no agent of away that answers is connected to a controller';
    assert.deepEqual([await questions.ask('away', NAMES), passedOn], [{ problem }, ['away']]);
    elsewhere = { text: 'y 1\n' };
    assert.deepEqual(await questions.ask('away', NAMES), { text: 'y 1\n' });
  });
});
