import assert from 'node:assert/strict';
import type { NodeReport } from '../../apis/node-report.ts';
import type { Node } from '../../apis/objects.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { type FakeKubeApi, fakeKubeApi } from '../../test/fake/kube-api.ts';
import { nodeReport } from '../../test/fake/node-state.ts';
import { StartupTaints } from './startup-taints.ts';

const KEY = 'nodewall.io/agent-not-ready';
const GPU = { key: 'gpu', effect: 'NoSchedule' };
const NODE: Node = {
  kind: 'Node',
  name: 'n1',
  labels: {},
  addresses: [],
  startsSince: '1970-01-01T00:00:00Z',
};
const PATH = '/api/v1/nodes/n1';

function specOf({ objects }: FakeKubeApi): { readonly taints: readonly object[] } {
  const { spec } = objects.get(PATH) ?? assert.fail();
  return spec as { readonly taints: readonly object[] };
}

/** A Node with two taints in the API, and a controller that leads. */
async function bed(taint = KEY) {
  const clock = fakeClock();
  const api = fakeKubeApi();
  const ours = ['NoSchedule', 'NoExecute'].map((effect) => ({ key: KEY, effect }));
  api.put(PATH, { spec: { podCIDR: '10.0.0.0/24', taints: [...ours, GPU] } });
  let report: NodeReport | null = null;
  const warnings: string[] = [];
  const log = { info: () => undefined, warn: (text: string) => void warnings.push(text) };
  const taints = new StartupTaints({
    taint,
    clock: { ...clock, date: () => new Date(clock.now()) },
    request: api.request,
    log: log as never,
    report: () => report,
  });
  await taints.lead(true);
  return {
    api,
    taints,
    warnings,
    report(said: Partial<NodeReport> = {}): void {
      report = nodeReport('n1', 'r', { time: new Date(clock.now()).toISOString(), ...said });
      taints.reported('n1');
    },
    /** Its taints after a while. */
    async after(milliseconds = 100): Promise<readonly object[]> {
      for (let i = 0; i < milliseconds; i += 50) {
        clock.pass(50);
        for (let j = 0; j < 5; j++) await new Promise(setImmediate);
      }
      return specOf(api).taints;
    },
  };
}

describe('startup taints', () => {
  it('are removed from a Node that enforces, and nothing else of it is', async () => {
    const { api, taints, report, after } = await bed();
    taints.publish([NODE]);
    report({ enforced: null });
    assert.equal((await after()).length, 3);
    report();
    assert.deepEqual(await after(), [GPU]);
    assert.deepEqual(api.objects.get(PATH)?.spec, { podCIDR: '10.0.0.0/24', taints: [GPU] });
    // The watch is behind.
    const count = api.requests.length;
    report();
    await after();
    assert.deepEqual(
      api.requests.slice(count).map(({ method }) => method),
      ['GET'],
    );
  });

  it('stay on a Node whose agent enforces not all, or nothing', async () => {
    const { api, taints, report, after } = await bed();
    report();
    taints.publish([{ kind: 'Node', name: 'n1', labels: {}, addresses: [] }]);
    const failing = [
      { apiGroup: 'nodewall.io', policy: 'p', generation: 1, rule: null, reason: 'full' },
    ] as const;
    for (const said of [
      { enforced: 'older' },
      { failing },
      { off: '' },
      { viewError: 'x' },
      { enabled: false },
    ]) {
      report(said);
      taints.publish([NODE]);
      await after();
    }
    report({ time: '1969-01-01T00:00:00Z' });
    await after();
    assert.equal(api.requests.length, 0);
  });

  it('stay on a Node of which only a machine of the same name has reported, before it was made', async () => {
    const { taints, report, after } = await bed();
    report();
    await after(10_000);
    taints.publish([{ ...NODE, startsSince: '1970-01-01T00:00:05Z' }]);
    assert.equal((await after()).length, 3);
    report();
    assert.deepEqual(await after(), [GPU]);
  });

  it('are removed where there is nothing to enforce', async () => {
    const { taints, report, after } = await bed();
    report({ enabled: false });
    taints.publish([NODE]);
    taints.gate(true);
    assert.equal((await after()).length, 3);
    taints.gate('unset');
    assert.deepEqual(await after(), [GPU]);
  });

  it('are removed after refusals, and lose no taint that somebody adds meanwhile', async () => {
    const { api, taints, warnings, report, after } = await bed();
    const added = { key: 'late', effect: 'NoSchedule' };
    let patches = 0;
    api.before = ({ method }) => {
      if (method !== 'PATCH' || ++patches > 1) return;
      api.put(PATH, { spec: { taints: [...specOf(api).taints, added] } });
    };
    taints.publish([NODE]);
    report();
    assert.deepEqual(await after(1000), [GPU, added]);
    assert.deepEqual(warnings, []);
    api.put(PATH, { spec: { taints: [{ key: KEY }] } });
    patches = 0;
    api.before = ({ method }) => {
      if (method === 'PATCH' && ++patches < 3) throw new Error('no');
    };
    for (let i = 0; i < 10; i++) {
      report();
      taints.publish([NODE]);
    }
    await after(150);
    taints.publish([NODE]);
    assert.equal(warnings.length, 1, 'it waits after a failure');
    assert.deepEqual(await after(3000), []);
    assert.equal(warnings.length, 2);
  });

  it('are nothing to a controller that does not lead, or has no taint configured', async () => {
    for (const taint of [KEY, '']) {
      const { api, taints, report, after } = await bed(taint);
      await taints.lead(taint === '');
      taints.publish([NODE]);
      report();
      await after();
      assert.equal(api.requests.length, 0);
    }
  });
});
