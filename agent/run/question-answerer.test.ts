import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { AGENT_CALLS, pathOf } from '../../apis/calls.ts';
import { MOST_ANSWER, type NodeAnswer } from '../../apis/node-question.ts';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import { createLog } from '../../lib/process/log.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import type { ControllerRequest } from '../receive/controller-client.ts';
import { QuestionAnswerer } from './question-answerer.ts';

const QUESTION = { type: 'question', about: 'names', query: '' } as const;

describe('QuestionAnswerer', () => {
  let text: string;
  let problem: Error | null;
  let sent: ControllerRequest[];
  /** Called when a request is sent; it ends with what this resolves with. */
  let answered: () => Promise<void>;
  let answerer: QuestionAnswerer;

  beforeEach(() => {
    [text, problem, sent, answered] = ['a 1\n', null, [], async () => {}];
    const client = {
      async request(request: ControllerRequest) {
        sent.push(request);
        await answered();
        return Readable.from([]) as unknown as IncomingMessage;
      },
      close() {},
    };
    const log = createLog({ logLevel: 'error' });
    const parts = { node: 'worker-1', client, clock: fakeClock(), log, signal: new AbortController().signal };
    answerer = new QuestionAnswerer(parts, async () => {
      if (problem !== null) throw problem;
      return text;
    });
  });

  async function answerTo(id: string, about = 'names'): Promise<NodeAnswer> {
    const asked = Promise.withResolvers<void>();
    answered = async () => asked.resolve();
    answerer.answer({ ...QUESTION, id, about });
    await asked.promise;
    return sent.at(-1)?.body as NodeAnswer;
  }

  it('sends them to where answers of its node go', async () => {
    assert.deepEqual(await answerTo('1'), { id: '1', text: 'a 1\n' });
    const [{ method, path } = assert.fail()] = sent;
    assert.deepEqual([method, path], ['POST', pathOf(AGENT_CALLS.answer, 'worker-1')]);
  });

  it('says so if the answer is too long, or there is none', async () => {
    text = '"'.repeat(MOST_ANSWER / 2);
    const answer = await answerTo('1');
    assert.match(
      'problem' in answer ? answer.problem : '',
      /names of this node have more than 1048576 bytes/,
    );
    problem = new CommandError(EXIT.usage, '--port: "x": must be a whole number');
    assert.deepEqual(await answerTo('2'), { id: '2', problem: problem.message, isRefused: true });
    problem = new Error('no state');
    assert.deepEqual(await answerTo('3'), { id: '3', problem: 'no state' });
  });

  it('says so of a question that only a later version knows', async () => {
    const answer = await answerTo('1', 'forecast');
    assert.match('problem' in answer ? answer.problem : '', /knows no forecast/);
  });

  it('answers four questions at a time, and further ones after a failure', async () => {
    const failed = Promise.withResolvers<void>();
    answered = () => failed.promise;
    for (const id of ['1', '2', '3', '4', '5']) answerer.answer({ ...QUESTION, id });
    await new Promise((resolve) => setImmediate(resolve));
    failed.reject(new Error('no route'));
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(await answerTo('6'), { id: '6', text: 'a 1\n' });
    assert.deepEqual(
      sent.map(({ body }) => (body as NodeAnswer).id),
      ['1', '2', '3', '4', '6'],
    );
  });
});
