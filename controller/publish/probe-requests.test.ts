import assert from 'node:assert/strict';
import { PROBES_PATH } from '../../apis/inward-probe.ts';
import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { JSON_TYPE, ServerBed, types } from '../../test/fake/server-bed.ts';

describe('probes to nodes', () => {
  const { start, ask, watch } = new ServerBed();

  it('takes questions of an agent for probes to its own node, and answers; controllers pass both on', async () => {
    const results = [{ name: 'ssh', notMade: 'no other agent' }];
    const heard: unknown[] = [];
    const take = async (...of: unknown[]) => {
      heard.push(of);
      return { results };
    };
    const running = await start({
      probes: {
        take,
        takeHere: async (...of) => (await take('here', ...of)).results,
        answered: (...of) => heard.push(of),
        answeredHere: (...of) => heard.push(['here', ...of]),
      },
    });
    const post = (path: string, token: string, body: unknown, to = running) =>
      ask(to, path, token, { method: 'POST', headers: JSON_TYPE, body: JSON.stringify(body) });
    const of = (node: string, part: string) => `${NODE_VIEWS_PATH}/${node}/${part}`;
    const question = { probes: [{ name: 'ssh' }], milliseconds: 1_000 };
    const answer = { id: '1', error: null, source: '192.0.2.1' };
    assert.deepEqual((await post(of('cp-1', 'probes'), 'agent.cp-1', question)).body, { results });
    assert.equal((await post(of('cp-1', 'probeanswer'), 'agent.cp-1', answer)).code, 204);
    for (const [part, body] of [
      ['probes', question],
      ['probeanswer', answer],
    ] as const) {
      assert.equal((await post(of('cp-2', part), 'agent.cp-1', body)).code, 403);
      assert.equal((await post(of('cp-1', part), 'agent.cp-1', {})).code, 422);
      assert.equal((await post(of('cp-1', part), 'agent.cp-1', { id: 'x'.repeat(20_000) })).code, 413);
      assert.equal((await ask(running, of('cp-1', part), 'agent.cp-1')).code, 405);
    }
    assert.equal((await post(PROBES_PATH, 'agent.cp-1', { kind: 'answer' })).code, 401);
    assert.equal((await post(PROBES_PATH, 'controller', { kind: 'question' })).code, 422);
    const passed = { kind: 'question', node: 'cp-2', ...question };
    assert.deepEqual((await post(PROBES_PATH, 'controller', passed)).body, { results });
    await post(PROBES_PATH, 'controller', { kind: 'answer', prober: 'cp-2', answer });
    assert.deepEqual(heard, [
      ...[
        ['cp-1', question],
        ['cp-1', answer],
      ],
      ...[
        ['here', 'cp-2', question],
        ['here', 'cp-2', answer],
      ],
    ]);
    const codes: (number | undefined)[] = [];
    for (let i = 0; i < 11; i++) codes.push((await post(of('cp-2', 'probes'), 'agent.cp-2', question)).code);
    assert.deepEqual([codes.indexOf(429), codes[0]], [10, 200]);
    const without = await start();
    assert.equal((await post(of('cp-1', 'probes'), 'agent.cp-1', question, without)).code, 404);
  });

  it('asks for probes agents alone that know how to make them', async () => {
    const running = await start();
    const { batch } = await watch(running, 'agent.cp-1', '&features=egress,probes');
    await batch();
    await (await watch(running, 'agent.cp-2', '', 'cp-2')).batch();
    await (await watch(running, 'user.somebody', '&features=probes', 'cp-2')).batch();
    assert.deepEqual(running.server.probers(), ['cp-1']);
    const target = { kind: 'tcp', address: '192.0.2.1', port: 22 } as const;
    const update = { type: 'probe', id: '1', target, milliseconds: 1_000 } as const;
    assert.deepEqual(
      ['cp-1', 'cp-2'].map((node) => running.server.sendProbe(node, update)),
      [true, false],
    );
    running.hub.setGate(false);
    const [{ sequence, revision, ...sent } = assert.fail(), ...rest] = await batch();
    assert.deepEqual([sent, types(rest)], [update, ['gate', 'bookmark']]);
    assert.ok(sequence > 1 && revision.startsWith('e.'));
  });
});
