import assert from 'node:assert/strict';
import { FairQueue } from '../../lib/process/fair-queue.ts';
import { type Access, accessAuthoriser } from '../publish/auth.ts';
import type { UseQuestion } from './review.ts';
import { USE_QUEUE, useRight } from './server.ts';

const QUESTION: UseQuestion = {
  user: { username: 'jane', uid: '7', groups: ['tenants'], extra: {} },
  gateway: 'out',
  namespace: 'shop',
  subject: 'EgressPolicy/shop/p: spec.address',
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

  it('is checked a few users at a time, and addresses by turns: a flood refuses itself', async () => {
    const running: (() => void)[] = [];
    let most = 0;
    const review = async () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      running.push(resolve);
      most = Math.max(most, running.length);
      await promise;
      return { allowed: true };
    };
    const authorise = accessAuthoriser(review, () => 0, new FairQueue(USE_QUEUE));
    const mayUse = useRight({ authorise, timeout: 60_000 });
    const ask = (username: string, source: string) =>
      mayUse({ ...QUESTION, user: { ...QUESTION.user, username } }, source);
    const flood = Array.from({ length: 1000 }, (_, i) => ask(`user-${i}`, 'attacker'));
    await new Promise(setImmediate);
    let isAnswered = false;
    const jane = ask('jane', 'api-server').then((rejection) => {
      isAnswered = true;
      return rejection;
    });
    for (let turn = 0; turn < 3 * USE_QUEUE.atOnce && !isAnswered; turn++) {
      running.shift()?.();
      await new Promise(setImmediate);
    }
    assert.ok(isAnswered);
    assert.equal(await jane, null);
    while (running.length > 0) {
      running.shift()?.();
      await new Promise(setImmediate);
    }
    const answers = await Promise.all(flood);
    assert.equal(most, USE_QUEUE.atOnce);
    const refused = answers.filter((rejection) => rejection?.reason === 'ServiceUnavailable');
    assert.ok(refused.length >= 1000 - USE_QUEUE.most - USE_QUEUE.atOnce - 1, String(refused.length));
    assert.match(refused[0]?.message ?? '', /more than 64 requests wait; try again$/);
  });
});
