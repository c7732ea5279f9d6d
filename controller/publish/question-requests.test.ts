import assert from 'node:assert/strict';
import { type Answered, nodeDataPath } from '../../apis/node-question.ts';
import { CONTROL_PLANE } from '../../apis/stream.ts';
import { ServerBed } from '../../test/fake/server-bed.ts';

const METRICS = { about: 'metrics', query: '' } as const;

describe('requests for what only a node knows', () => {
  const { start, ask, watch } = new ServerBed();

  it('gives users what only a node knows, if they may have it', async () => {
    const answers: Answered[] = [];
    const asked: unknown[] = [];
    const running = await start({
      nodeQuestions: {
        async ask(...of) {
          asked.push(of);
          return answers.shift() ?? { problem: 'nothing more' };
        },
        askHere: async () => null,
        answered: () => {},
        answeredHere: () => {},
      },
    });
    const get = (path: string, token = 'user.jane') => ask(running, path, token);
    const path = nodeDataPath('cp-1', 'records');
    answers.push({ text: '{"records":[],"isCut":false}' }, { problem: 'no "x"', isRefused: true });
    assert.deepEqual((await get(`${path}?port=22&lines=5`)).body, { records: [], isCut: false });
    assert.deepEqual(running.asked.splice(0), [
      { verb: 'get', subresource: 'records', name: 'cp-1', resource: 'nodeviews', ...CONTROL_PLANE },
    ]);
    assert.equal((await get(`${path}?port=x`)).code, 400);
    assert.equal((await get(path)).code, 503);
    assert.deepEqual(asked, [
      ['cp-1', { about: 'records', query: 'port=22&lines=5' }],
      ['cp-1', { about: 'records', query: 'port=x' }],
      ['cp-1', { about: 'records', query: '' }],
    ]);
    assert.equal((await get(`${path}?src=${'x'.repeat(4096)}`)).code, 400);
    assert.equal((await get(nodeDataPath('nobody', 'names'))).code, 404);
    const denied = await get(path, 'user.mallory');
    assert.equal(denied.code, 403);
    assert.match(JSON.stringify(denied.body), /may not get nodeviews\/records cp-1/);
    // An agent asks its own node at most.
    assert.equal((await get(path, 'agent.cp-2')).code, 403);
  });

  it('asks agents alone that answer', async () => {
    const running = await start();
    const { batch } = await watch(running, 'agent.cp-1', '&features=probes,questions');
    await batch();
    await (await watch(running, 'agent.cp-2', '&features=probes', 'cp-2')).batch();
    await (await watch(running, 'user.somebody', '&features=questions', 'cp-2')).batch();
    const update = { type: 'question', id: '1', ...METRICS } as const;
    assert.deepEqual(
      ['cp-1', 'cp-2'].map((node) => running.server.sendQuestion(node, update)),
      [true, false],
    );
    running.hub.setGate(false);
    const [{ sequence: _, revision: __, ...sent } = assert.fail()] = await batch();
    assert.deepEqual(sent, update);
  });
});
