import assert from 'node:assert/strict';
import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { JSON_TYPE, ServerBed } from '../../test/fake/server-bed.ts';
import { LEASES_PATH } from './lease-batch.ts';

describe('heartbeats of egress gateways', () => {
  const { start, ask } = new ServerBed();

  it('takes heartbeats of an agent for its own node, and those that controllers pass on', async () => {
    const heartbeat = (node: string) => ({ node, boot: 'b', sent: 1, held: [], ready: [] });
    const grants = [{ gateway: 'g', slot: '0', epoch: 1, addresses: ['198.51.100.1'], milliseconds: 2000 }];
    let leads = true;
    const takeAsLeader = () => (leads ? { grants } : null);
    const running = await start({ leases: { take: async () => takeAsLeader(), takeAsLeader } });
    const post = (path: string, token: string, body: unknown, to = running) =>
      ask(to, path, token, { method: 'POST', headers: JSON_TYPE, body: JSON.stringify(body) });
    const beat = (node: string, token: string, body: unknown, to = running) =>
      post(`${NODE_VIEWS_PATH}/${node}/lease`, token, body, to);
    assert.deepEqual((await beat('cp-1', 'agent.cp-1', heartbeat('cp-1'))).body, { grants });
    assert.equal((await beat('cp-2', 'agent.cp-1', heartbeat('cp-2'))).code, 403);
    assert.equal((await beat('cp-1', 'agent', heartbeat('cp-1'))).code, 403);
    assert.equal((await beat('cp-1', 'agent.cp-1', heartbeat('cp-2'))).code, 422);
    assert.equal((await beat('cp-9', 'agent.cp-9', heartbeat('cp-9'))).code, 404);
    assert.equal((await beat('cp-1', 'agent.cp-1', { boot: 'b'.repeat(300_000) })).code, 413);
    assert.equal((await ask(running, `${NODE_VIEWS_PATH}/cp-1/lease`, 'agent.cp-1')).code, 405);
    const batch = { requests: [heartbeat('cp-1'), heartbeat('cp-2')] };
    assert.equal((await post(LEASES_PATH, 'agent.cp-1', batch)).code, 401);
    assert.equal((await post(LEASES_PATH, 'controller', { requests: [{}] })).code, 422);
    assert.deepEqual((await post(LEASES_PATH, 'controller', batch)).body, {
      answers: [{ grants }, { grants }],
    });
    leads = false;
    assert.equal((await beat('cp-1', 'agent.cp-1', heartbeat('cp-1'))).code, 503);
    assert.deepEqual((await post(LEASES_PATH, 'controller', batch)).body, { answers: [null, null] });
    const codes: (number | undefined)[] = [];
    for (let i = 0; i < 61; i++) codes.push((await beat('cp-2', 'agent.cp-2', heartbeat('cp-2'))).code);
    assert.deepEqual([codes.indexOf(429), codes[0]], [60, 503]);
    const gateOff = await start();
    assert.equal((await beat('cp-1', 'agent.cp-1', heartbeat('cp-1'), gateOff)).code, 404);
  });
});
