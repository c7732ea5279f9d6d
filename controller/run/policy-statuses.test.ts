import assert from 'node:assert/strict';
import { fakeKubeApi } from '../../test/fake/kube-api.ts';
import { onlyAsLeader } from './policy-statuses.ts';

describe('requests that only the leader makes', () => {
  it('fail while it is not certain that this process leads', async () => {
    const api = fakeKubeApi();
    api.put('/a', { spec: {} });
    let leads = false;
    const request = onlyAsLeader(api.request, () => leads);
    await assert.rejects(request({ method: 'GET', path: '/a' }), /another controller may lead/);
    leads = true;
    assert.ok(await request({ method: 'GET', path: '/a' }));
  });
});
