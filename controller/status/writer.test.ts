import assert from 'node:assert/strict';
import type { PolicyStatus } from '../../apis/policy-status.ts';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import { type FakeKubeApi, fakeKubeApi } from '../../test/fake/kube-api.ts';
import { KubeError } from '../kubeapi/kube-error.ts';
import { NODEWALL_POLICIES, POLICY_TARGET, type StatusWriter, statusWriter } from './writer.ts';

function status(current: number, more: Partial<PolicyStatus> = {}): PolicyStatus {
  const counts = { currentNodesRealized: current, desiredNodesRealized: 9 };
  return { phase: 'Realizing', observedGeneration: 1, ...counts, conditions: [], ...more };
}

describe('statusWriter', () => {
  let api: FakeKubeApi;
  let clock: FakeClock;
  let writer: StatusWriter;
  let times: [number, string][];
  const failed: string[] = [];

  beforeEach(() => {
    api = fakeKubeApi();
    clock = fakeClock();
    times = [];
    failed.length = 0;
    writer = statusWriter(
      api.request,
      clock,
      {
        written: (name) => void times.push([clock.now(), name]),
        failed: (name, error, retryIn) => void failed.push(`${name} ${(error as Error).message} ${retryIn}`),
      },
      POLICY_TARGET,
    );
    for (const name of ['a', 'b', 'c']) api.put(`${NODEWALL_POLICIES}/${name}`, { spec: { priority: 1 } });
  });

  async function pass(milliseconds: number): Promise<void> {
    for (let i = 0; i < milliseconds; i += 50) {
      clock.pass(50);
      for (let j = 0; j < 3; j++) await new Promise(setImmediate);
    }
  }

  const uid = (name: string): string => api.objects.get(`${NODEWALL_POLICIES}/${name}`)?.metadata.uid ?? '';
  const held = (name: string): unknown => api.objects.get(`${NODEWALL_POLICIES}/${name}`)?.status;
  const submit = (name: string, wanted: PolicyStatus): void => writer.submit(name, uid(name), wanted, null);

  it('writes ten a second, a policy every two seconds, the latest only, and only the status', async () => {
    for (let i = 0; i < 5; i++) for (const name of ['a', 'b', 'c']) submit(name, status(i));
    await pass(500);
    assert.deepEqual(times, [
      [50, 'a'],
      [150, 'b'],
      [250, 'c'],
    ]);
    assert.deepEqual(held('a'), status(4));
    submit('a', status(5));
    submit('a', status(6));
    await pass(1_500);
    assert.equal(times.length, 3);
    await pass(100);
    assert.deepEqual(times[3], [2_050, 'a']);
    assert.deepEqual(held('a'), status(6));
    assert.deepEqual(api.objects.get(`${NODEWALL_POLICIES}/a`)?.spec, { priority: 1 });
  });

  it('removes fields that the new status does not have', async () => {
    submit(
      'a',
      status(1, {
        phase: 'Failed',
        failingNodes: [{ node: 'n', reason: 'r' }],
        problems: ['p'],
        enforcedGeneration: 1,
      }),
    );
    await pass(100);
    submit('a', status(2));
    await pass(2_100);
    assert.deepEqual(held('a'), status(2));
  });

  it('retries with back-off, with the newest status', async () => {
    let isAway = true;
    api.before = () => {
      if (isAway) throw new KubeError('away', { reason: 'Unreachable' });
    };
    submit('a', status(1));
    await pass(4_000);
    assert.deepEqual(failed, ['a away 1000', 'a away 2000', 'a away 4000']);
    submit('a', status(2));
    isAway = false;
    await pass(5_000);
    assert.deepEqual(held('a'), status(2));
    assert.equal(writer.waiting(), 0);
  });

  it('gives up on a deleted policy, and on one that was recreated', async () => {
    const old = uid('a');
    api.objects.delete(`${NODEWALL_POLICIES}/b`);
    writer.submit('b', 'any', status(1), null);
    api.request({ method: 'DELETE', path: `${NODEWALL_POLICIES}/a` });
    await api.request({ method: 'POST', path: NODEWALL_POLICIES, body: { metadata: { name: 'a' } } });
    writer.submit('a', old, status(1), null);
    await pass(3_000);
    assert.equal(held('a'), undefined);
    assert.deepEqual([failed, writer.waiting()], [[], 0]);
  });

  it('drops queued statuses', async () => {
    submit('a', status(1));
    submit('b', status(1));
    writer.forget('a');
    await pass(100);
    assert.deepEqual(
      times.map(([, name]) => name),
      ['b'],
    );
    submit('c', status(1));
    await writer.clear();
    await pass(3_000);
    assert.equal(held('c'), undefined);
  });
});
