import assert from 'node:assert/strict';
import type { Access } from '../publish/auth.ts';
import type { UseQuestion } from './review.ts';
import { useRight } from './use-right.ts';

const QUESTION: UseQuestion = {
  user: { username: 'jane', uid: '7', groups: ['tenants'], extra: {} },
  ...{ gateway: 'out', namespace: 'shop', subject: 'EgressPolicy/shop/p: spec.address' },
};

describe('the right to use an egress gateway', () => {
  it('is that of the verb use, in the namespace of the policy', async () => {
    const asked: unknown[] = [];
    const mayUse = useRight({
      async authorise({ username, groups }, access, source) {
        asked.push([username, groups, access, source]);
        return { allowed: (access as Access).namespace === 'shop', reason: '' };
      },
    });
    assert.equal(await mayUse(QUESTION, '192.0.2.9'), null);
    const access = { verb: 'use', group: 'nodewall.io', version: 'v1alpha1', resource: 'egressgateways' };
    assert.deepEqual(asked, [
      ['jane', ['tenants'], { ...access, name: 'out', namespace: 'shop' }, '192.0.2.9'],
    ]);
    assert.deepEqual(await mayUse({ ...QUESTION, namespace: '' }, ''), {
      reason: 'Forbidden',
      message:
        'EgressPolicy/shop/p: spec.address: user jane lacks the right to use EgressGateway out (RBAC verb use on egressgateways.nodewall.io)',
      isTransient: false,
    });
  });

  it('is refused where it cannot be checked, or not in time', async () => {
    const failing = useRight({
      authorise: async () => {
        throw new Error('more than 64 requests wait');
      },
    });
    const late = useRight({ authorise: () => new Promise(() => {}), timeout: 1 });
    for (const [mayUse, why] of [
      [failing, /can't be checked .*: more than 64 requests wait; try again$/],
      [late, /can't be checked .*: no answer in time; try again$/],
    ] as const) {
      const rejection = await mayUse(QUESTION, '');
      assert.equal(rejection?.reason, 'ServiceUnavailable');
      assert.match(rejection.message, why);
    }
  });
});
