import assert from 'node:assert/strict';
import type { MetricsAnswer, Scraped } from '../../apis/node-metrics.ts';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import { NodeMetrics } from './node-metrics.ts';

describe('NodeMetrics', () => {
  let clock: FakeClock;
  let sent: [node: string, id: string][];
  let passedOn: unknown[];
  let elsewhere: Scraped | null;
  let metrics: NodeMetrics;

  beforeEach(() => {
    clock = fakeClock();
    [sent, passedOn, elsewhere] = [[], [], null];
    metrics = new NodeMetrics({
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

  const answer = (text: string): MetricsAnswer => ({ id: sent.at(-1)?.[1] ?? '', text });

  it('asks the agent once for all who scrape it at the same time, and again later', async () => {
    const both = [metrics.take('a'), metrics.takeHere('a')];
    metrics.answered('a', answer('x 1\n'));
    assert.deepEqual(await Promise.all(both), [{ text: 'x 1\n' }, { text: 'x 1\n' }]);
    assert.deepEqual([sent.length, clock.waiting()], [1, []]);
    const next = metrics.take('a');
    metrics.answered('a', answer('x 2\n'));
    assert.deepEqual([await next, sent.length, passedOn], [{ text: 'x 2\n' }, 2, []]);
  });

  it('takes no answer of another agent, or to another question: it passes them on', async () => {
    const scraped = metrics.take('a');
    metrics.answered('b', answer('of b'));
    metrics.answered('a', { id: 'other', text: 'of before' });
    metrics.answeredHere('b', answer('of b'));
    assert.deepEqual(passedOn, [
      ['b', answer('of b')],
      ['a', { id: 'other', text: 'of before' }],
    ]);
    metrics.answeredHere('a', answer('of a'));
    assert.deepEqual(await scraped, { text: 'of a' });
  });

  it('gives up after four seconds', async () => {
    const scraped = metrics.take('a');
    clock.pass(4_000);
    assert.deepEqual(await scraped, { problem: 'the agent of a did not answer in 4 s' });
  });

  it('asks other controllers for agents that are not connected here', async () => {
    assert.equal(await metrics.takeHere('away'), null);
    const problem = 'no agent of away that has metrics is connected to a controller';
    assert.deepEqual([await metrics.take('away'), passedOn], [{ problem }, ['away']]);
    elsewhere = { text: 'y 1\n' };
    assert.deepEqual(await metrics.take('away'), { text: 'y 1\n' });
  });
});
