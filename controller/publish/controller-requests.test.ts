import assert from 'node:assert/strict';
import {
  CONTROLLER_STATE_PATH,
  CONTROLLERS_PATH,
  type ControllerList,
  type ControllerState,
} from '../../apis/controller-state.ts';
import { ServerBed } from '../../test/fake/server-bed.ts';

describe('requests for the state of controllers', () => {
  const { start, ask } = new ServerBed();

  it('gives users the state of all controllers, and controllers its own', async () => {
    const own = { name: 'a', version: '0.1.0' } as ControllerState;
    const other = { metadata: { name: '10.0.0.2:8443' }, problem: 'no answer' };
    const running = await start({ controllers: { own: async () => own, others: async () => [other] } });
    const list = await ask(running, CONTROLLERS_PATH, 'user.kim');
    assert.deepEqual(running.asked.splice(0), [
      { group: 'controlplane.nodewall.io', version: 'v1alpha1', verb: 'list', resource: 'controllers' },
    ]);
    assert.deepEqual((list.body as ControllerList).items, [{ metadata: { name: 'a' }, state: own }, other]);
    const refused = await ask(running, CONTROLLERS_PATH, 'user.mallory');
    assert.equal(refused.code, 403);
    assert.match(JSON.stringify(refused.body), /list controllers .*nodewall-view/);
    assert.equal((await ask(running, CONTROLLERS_PATH, 'user.kim', { method: 'POST' })).code, 405);
    assert.deepEqual((await ask(running, CONTROLLER_STATE_PATH, 'controller')).body, own);
    for (const token of ['user.kim', 'agent.cp-1', ''])
      assert.equal((await ask(running, CONTROLLER_STATE_PATH, token)).code, 401, token);
    const silent = await start();
    assert.equal((await ask(silent, CONTROLLERS_PATH, 'user.kim')).code, 404);
  });
});
