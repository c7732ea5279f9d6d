import assert from 'node:assert/strict';
import type { ClusterNetworkPolicy } from '../../apis/objects.ts';
import { leftOutEndpointWarnings } from './left-out-endpoints.ts';

describe('the warning of endpoints that no pod has', () => {
  it('names rule, Service and addresses', () => {
    const to = (name: string) => ({ action: 'Allow' as const, toServices: [{ namespace: 'shop', name }] });
    const spec = { priority: 1, egress: [to('web'), to('db')] };
    const policy: ClusterNetworkPolicy = {
      kind: 'ClusterNetworkPolicy',
      apiGroup: 'nodewall.io',
      name: 'p',
      uid: '',
      generation: 0,
      spec,
    };
    const addresses = [1, 2, 3, 4].map((n) => `203.0.113.${n}`);
    const [warning, ...more] = leftOutEndpointWarnings(policy, new Map([['shop/db', addresses]]));
    assert.deepEqual(more, []);
    assert.match(
      warning ?? '',
      /^spec\.egress\[1\]\.toServices\[0\]: .* of shop\/db, .*: 203\.0\.113\.1, .*\.3 and 1 more; .* endpointsWithoutPods /,
    );
    assert.deepEqual(leftOutEndpointWarnings(policy, new Map()), []);
  });
});
