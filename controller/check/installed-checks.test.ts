import assert from 'node:assert/strict';
import { CONTROLLERS_PATH } from '../../apis/controller-state.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { endpointsOfPods } from './installed-checks.ts';

async function linesOf(...states: readonly object[]) {
  const items = states.map((state) => ({ metadata: { name: 'c' }, state }));
  const request = (async ({ path }: { readonly path: string }) =>
    path === CONTROLLERS_PATH ? { items } : null) as unknown as KubeApi;
  return await endpointsOfPods(request);
}

describe('the check of endpoints', () => {
  it('asks for the Services of which pods lack endpoints, of any controller', async () => {
    const [line, ...more] = await linesOf(
      { leftOutServices: [] },
      { leftOutServices: ['shop/db', 'infra/x'] },
    );
    assert.deepEqual(more, []);
    assert.match(`${line?.state}: ${line?.message}`, /^warning: .*: infra\/x, shop\/db$/);
    assert.match(line?.next ?? '', /: endpointsWithoutPods: \[infra\/x, shop\/db\]$/);
  });

  it('has nothing to ask where pods have all of them, or controllers are older', async () => {
    const [line] = await linesOf({ leftOutServices: [] });
    assert.equal(line?.state, 'ok');
    assert.deepEqual(await linesOf({}), []);
    assert.deepEqual(await linesOf(), []);
  });
});
