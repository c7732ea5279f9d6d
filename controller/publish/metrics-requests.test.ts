import assert from 'node:assert/strict';
import { text } from 'node:stream/consumers';
import { type Answered, answerPath, MOST_ANSWER, NODE_QUESTIONS_PATH } from '../../apis/node-question.ts';
import { ALL_NODES_PATH, nodeMetricsPath } from '../../apis/scrape-path.ts';
import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { identityOf, JSON_TYPE, ServerBed } from '../../test/fake/server-bed.ts';
import { REPORTS_PATH } from './report-batch.ts';

const METRICS = { about: 'metrics', query: '' } as const;

describe('scrapes', () => {
  const { start, send, ask } = new ServerBed();

  it('answers scrapers of its own metrics before it serves, and nobody else', async () => {
    let isOpen = false;
    const running = await start({
      isOpen: () => isOpen,
      metrics: {
        authenticate: async ({ headers: { authorization = '' } }) =>
          identityOf(authorization.replace('Bearer ', ''), null),
        contentType: 'text/plain; version=0.0.4',
        text: async () => 'own 1\n',
        allNodes: async () => ({ text: 'all 1\n' }),
      },
    });
    const code = async (path: string, token: string, method = 'GET') => {
      const response = await send(running, path, token, { method });
      await text(response);
      return response.statusCode;
    };
    const others = [
      [ALL_NODES_PATH, 'user.prometheus'],
      [nodeMetricsPath('cp-1'), 'user.prometheus'],
      [NODE_VIEWS_PATH, 'user.kim'],
      [`${NODE_VIEWS_PATH}/cp-1`, 'agent.cp-1'],
      [REPORTS_PATH, 'controller'],
      ['/apis', 'user.kim'],
    ] as const;
    for (const [path, token] of others) assert.equal(await code(path, token), 503, path);
    assert.equal(await code('/metrics', 'user.prometheus'), 200);
    assert.equal(await code('/metrics', 'user.mallory'), 403);
    assert.equal(await code('/metrics', ''), 401);
    isOpen = true;
    for (const [path, token] of others.filter(([path]) => path !== nodeMetricsPath('cp-1')))
      assert.equal(await code(path, token), 200, path);
  });

  it('gives scrapers what an agent answers; controllers pass both on', async () => {
    const heard: unknown[] = [];
    let isBehind = false;
    const answered = async (...of: unknown[]): Promise<Answered> => {
      heard.push(of);
      return of.includes('cp-1') ? { text: 'a 1\n' } : { problem: 'not connected' };
    };
    const running = await start({
      metrics: {
        authenticate: async ({ headers: { authorization = '' } }) =>
          identityOf(authorization.replace('Bearer ', ''), null),
        contentType: 'text/plain; version=0.0.4',
        text: async () => 'own 1\n',
        allNodes: async () => (isBehind ? { problem: 'reports are missing' } : { text: 'all 1\n' }),
      },
      nodeQuestions: {
        ask: answered,
        askHere: (...of) => answered('here', ...of),
        answered: (...of) => heard.push(of),
        answeredHere: (...of) => heard.push(['here', ...of]),
      },
    });
    const get = async (node: string, token = 'user.prometheus') => {
      const response = await send(running, nodeMetricsPath(node), token);
      return [response.statusCode, response.headers['content-type'], await text(response)];
    };
    assert.deepEqual(await get('cp-1'), [200, 'text/plain; version=0.0.4', 'a 1\n']);
    assert.deepEqual(running.asked.splice(0), [{ verb: 'get', path: '/metrics' }]);
    const all = async (token = 'user.prometheus') => {
      const response = await send(running, ALL_NODES_PATH, token);
      return [response.statusCode, (await text(response)).slice(0, 5)];
    };
    assert.deepEqual(await all(), [200, 'all 1']);
    assert.deepEqual(running.asked.splice(0), [{ verb: 'get', path: '/metrics' }]);
    isBehind = true;
    const codesOfAll = await Promise.all([all(), all('user.mallory'), all('')]);
    assert.deepEqual(
      codesOfAll.map(([code]) => code),
      [503, 403, 401],
    );
    const codes = [get('cp-2'), get('cp-3'), get('a/b'), get('cp-1', 'user.mallory'), get('cp-1', '')];
    assert.deepEqual(
      (await Promise.all(codes)).map(([code]) => code),
      [503, 404, 400, 403, 401],
    );
    const post = (path: string, token: string, body: unknown) =>
      ask(running, path, token, { method: 'POST', headers: JSON_TYPE, body: JSON.stringify(body) });
    const answer = { id: '1', text: 'a 2\n' };
    const own = answerPath('cp-1');
    assert.equal((await post(own, 'agent.cp-1', answer)).code, 204);
    assert.equal((await post(own, 'agent.cp-2', answer)).code, 403);
    assert.equal((await post(own, 'agent.cp-1', { id: '1' })).code, 422);
    assert.equal((await post(own, 'agent.cp-1', { id: '1', text: 'x'.repeat(MOST_ANSWER) })).code, 413);
    const question = { kind: 'question', node: 'cp-1', about: 'metrics', query: '' };
    assert.equal((await post(NODE_QUESTIONS_PATH, 'agent.cp-1', question)).code, 401);
    assert.deepEqual((await post(NODE_QUESTIONS_PATH, 'controller', question)).body, { text: 'a 1\n' });
    await post(NODE_QUESTIONS_PATH, 'controller', { kind: 'answer', node: 'cp-1', answer });
    assert.equal((await post(NODE_QUESTIONS_PATH, 'controller', { kind: 'answer', node: 'cp-1' })).code, 422);
    assert.deepEqual(heard, [
      ['cp-1', METRICS],
      ['cp-2', METRICS],
      ['cp-1', answer],
      ['here', 'cp-1', METRICS],
      ['here', 'cp-1', answer],
    ]);
    const limited: (number | undefined)[] = [];
    for (let i = 0; i < 33; i++) limited.push((await post(answerPath('cp-2'), 'agent.cp-2', answer)).code);
    assert.deepEqual([limited[0], limited.indexOf(429)], [204, 31]);
  });
});
