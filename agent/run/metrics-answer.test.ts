import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { type MetricsAnswer, MOST_METRICS, metricsAnswerPath } from '../../apis/node-metrics.ts';
import { createLog } from '../../lib/process/log.ts';
import type { ControllerRequest } from '../receive/controller-client.ts';
import { MetricsAnswerer } from './metrics-answer.ts';

describe('MetricsAnswerer', () => {
  let text: string;
  let sent: ControllerRequest[];
  /** Called when a request is sent; it ends with what this resolves with. */
  let answered: () => Promise<void>;
  let answerer: MetricsAnswerer;

  beforeEach(() => {
    [text, sent, answered] = ['a 1\n', [], async () => {}];
    const client = {
      async request(request: ControllerRequest) {
        sent.push(request);
        await answered();
        return Readable.from([]) as unknown as IncomingMessage;
      },
      close() {},
    };
    const log = createLog({ logLevel: 'error' });
    const parts = { node: 'worker-1', client, log, signal: new AbortController().signal };
    answerer = new MetricsAnswerer(parts, async () => text);
  });

  async function answerTo(id: string): Promise<MetricsAnswer> {
    const asked = Promise.withResolvers<void>();
    answered = async () => asked.resolve();
    answerer.take({ type: 'metrics', id });
    await asked.promise;
    return sent.at(-1)?.body as MetricsAnswer;
  }

  it('sends them to where answers of its node go', async () => {
    assert.deepEqual(await answerTo('1'), { id: '1', text: 'a 1\n' });
    const [{ method, path } = assert.fail()] = sent;
    assert.deepEqual([method, path], ['POST', metricsAnswerPath('worker-1')]);
  });

  it('says so if there are too many', async () => {
    text = '"'.repeat(MOST_METRICS / 2);
    const answer = await answerTo('1');
    assert.match('problem' in answer ? answer.problem : '', /more than 1048576 bytes of metrics/);
  });

  it('answers one question at a time, and further ones after a failure', async () => {
    const failed = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<void>();
    answered = () => {
      asked.resolve();
      return failed.promise;
    };
    answerer.take({ type: 'metrics', id: '1' });
    await asked.promise;
    answerer.take({ type: 'metrics', id: '2' });
    failed.reject(new Error('no route'));
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(await answerTo('3'), { id: '3', text: 'a 1\n' });
    assert.deepEqual(
      sent.map(({ body }) => (body as MetricsAnswer).id),
      ['1', '3'],
    );
  });
});
