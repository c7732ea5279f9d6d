import assert from 'node:assert/strict';
import type { KubeApi } from '../controller/kubeapi/kube-api.ts';
import { present } from '../lib/sharing/present.ts';
import { retryInCluster } from './guard.ts';

describe('retry from a workstation', () => {
  let patched: [string, unknown][];
  const failing = (policy: string, rolledBack?: true, apiGroup = 'nodewall.io') => ({
    apiGroup,
    policy,
    generation: 2,
    rule: null,
    reason: '',
    ...present({ rolledBack }),
  });
  const items = [
    { metadata: { name: 'w-2' }, status: { failing: [failing('bad', true), failing('invalid')] } },
    { metadata: { name: 'w-1' }, status: { failing: [failing('bad', true)] } },
    { metadata: { name: 'w-3' }, status: { failing: [failing('old', true, 'crd.antrea.io')] } },
    { metadata: { name: 'w-4' } },
  ];
  const request = (async ({ method, path, body }: { method: string; path: string; body?: unknown }) => {
    if (method === 'PATCH') patched.push([path, body]);
    return { items };
  }) as unknown as KubeApi;
  beforeEach(() => {
    patched = [];
  });
  const body = { metadata: { annotations: { 'nodewall.io/retry': 'now' } } };
  const BAD = '/apis/nodewall.io/v1alpha1/clusternetworkpolicies/bad';
  const OLD = '/apis/crd.antrea.io/v1beta1/clusternetworkpolicies/old';

  it('annotates the policy, if a node holds it', async () => {
    const retried = await retryInCluster(request, 'bad', 'now');
    assert.deepEqual(retried, [{ apiGroup: 'nodewall.io', policy: 'bad', nodes: ['w-1', 'w-2'] }]);
    assert.deepEqual(patched, [[BAD, body]]);
  });

  it('annotates all that nodes hold, of each API group', async () => {
    await retryInCluster(request, undefined, 'now');
    assert.deepEqual(patched, [
      [OLD, body],
      [BAD, body],
    ]);
  });

  it('changes nothing that no node holds, or that fails for another reason', async () => {
    assert.deepEqual(await retryInCluster(request, 'good', 'now'), []);
    assert.deepEqual(await retryInCluster(request, 'invalid', 'now'), []);
    assert.deepEqual(patched, []);
  });
});
