import assert from 'node:assert/strict';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { type FakeKubeApi, fakeKubeApi } from '../../../test/fake/kube-api.ts';
import { KubeError } from '../kube-error.ts';
import { KeptBundle } from './kept-bundle.ts';

const CONFIG_MAP = '/api/v1/namespaces/nodewall-system/configmaps/nodewall-ca';

describe('KeptBundle', () => {
  let api: FakeKubeApi;
  let time: ReturnType<typeof fakeClock>;
  let failures: Error[];
  let bundle: KeptBundle;

  beforeEach(() => {
    api = fakeKubeApi();
    time = fakeClock();
    failures = [];
    bundle = new KeptBundle({
      request: api.request,
      namespace: 'nodewall-system',
      name: 'nodewall-ca',
      clock: time,
      failed: (error) => void failures.push(error),
    });
  });
  afterEach(() => bundle.close());

  /** Until it waits for its next check. */
  async function settled(): Promise<void> {
    while (time.waiting().length === 0) await new Promise(setImmediate);
  }

  const published = (): unknown => api.objects.get(CONFIG_MAP)?.data;

  it('publishes the certificates, and those that follow at once', async () => {
    bundle.take('A');
    await settled();
    assert.deepEqual(published(), { 'ca.crt': 'A' });
    bundle.take('B');
    await settled();
    assert.deepEqual(published(), { 'ca.crt': 'B' });
  });

  it('tries again after a failure', async () => {
    api.before = () => {
      throw new KubeError('no answer', { reason: 'Unreachable' });
    };
    bundle.take('A');
    await settled();
    assert.equal(failures.length, 1);
    api.before = () => {};
    time.pass(1_000);
    await settled();
    assert.deepEqual(published(), { 'ca.crt': 'A' });
  });

  it('publishes them again if the ConfigMap was deleted', async () => {
    bundle.take('A');
    await settled();
    api.objects.delete(CONFIG_MAP);
    time.pass(600_000);
    await settled();
    assert.deepEqual(published(), { 'ca.crt': 'A' });
  });
});
