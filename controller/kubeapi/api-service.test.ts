import assert from 'node:assert/strict';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { fakeKubeApi } from '../../test/fake/kube-api.ts';
import { Registration } from './api-service.ts';

const PATH = '/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.controlplane.nodewall.io';

describe('Registration', () => {
  it('removes at the end what another replica registered before the watch shows it', async () => {
    const api = fakeKubeApi();
    const done: string[] = [];
    const registration = new Registration({
      request: api.request,
      after: fakeClock().after,
      facts: () => ({
        isWanted: true,
        isServing: true,
        isLast: true,
        isStopping: true,
        isNamespaceTerminating: false,
        caBundle: null,
      }),
      done: (action) => void done.push(action),
      failed: (error) => assert.fail(String(error)),
    });
    api.put(PATH, {});
    registration.reconcile();
    while (api.objects.has(PATH)) await new Promise(setImmediate);
    api.put(PATH, {});
    await registration.close();
    assert.equal(api.objects.has(PATH), false);
    assert.deepEqual(done, ['remove', 'remove']);
  });

  it('tries again after ever longer waits while it fails', async () => {
    const clock = fakeClock();
    let failures = 0;
    const registration = new Registration({
      request: () => Promise.reject(new Error('401')),
      after: clock.after,
      facts: () => ({
        isWanted: true,
        isServing: true,
        isLast: true,
        isStopping: true,
        isNamespaceTerminating: false,
        caBundle: null,
      }),
      done: () => assert.fail(),
      failed: () => void failures++,
    });
    registration.reconcile();
    for (let second = 0; second < 120; second++) {
      for (let i = 0; i < 10; i++) await new Promise(setImmediate);
      clock.pass(1_000);
    }
    assert.ok(failures >= 7 && failures <= 9, `${failures} in 120 s`);
    await registration.close();
  });
});
