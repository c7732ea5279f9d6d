import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { type ClusterObjects, NO_OBJECTS } from '../../apis/objects.ts';
import { createLog } from '../../lib/process/log.ts';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import { toClusterObjects } from '../../test/properties/pipeline.ts';
import type { ObjectChange } from '../impact/object-mirror.ts';
import { GuardrailWatch, KEEP_READY } from './guardrail-watch.ts';

const SSH = {
  apiVersion: 'nodewall.io/v1alpha1',
  kind: 'Guardrail',
  metadata: { name: 'ssh' },
  spec: { nodeSelector: {}, mustAllow: [{ direction: 'ingress', ports: [{ port: 22 }] }] },
};
const CHANGE: ObjectChange = { kind: 'Tier', identity: 't', next: null };

describe('watching the Guardrails', () => {
  let clock: FakeClock;
  let watch: GuardrailWatch;
  let objects: ClusterObjects | null;
  /** The calls of the process, and the Guardrails of each status, in order. */
  let calls: string[];

  beforeEach(() => {
    clock = fakeClock();
    objects = null;
    calls = [];
    watch = new GuardrailWatch({
      impact: {
        violations: async () => {
          calls.push('violations');
          return new Map();
        },
        change: async () => {
          calls.push('change');
          return { broken: null, neverHeld: null, lines: [] };
        },
        rest: () => void calls.push('rest'),
      },
      compiling: {
        get objects() {
          return objects;
        },
        snapshot: null,
      },
      config: DEFAULT_CONFIG,
      keeper: { set: (guardrails) => void calls.push(`${guardrails.length} statuses`), wait: () => {} },
      clock,
      log: createLog({ logLevel: 'error' }),
    });
  });

  /** The calls since the last time, after a second. */
  async function callsAfter(next: ClusterObjects | null): Promise<string[]> {
    objects = next;
    watch.evaluate();
    await nextTurn();
    clock.pass(1_000);
    await nextTurn();
    return calls.splice(0);
  }

  it('starts no process while there are no Guardrails', async () => {
    assert.deepEqual(await callsAfter(null), []);
    assert.deepEqual(await callsAfter({ ...NO_OBJECTS }), ['0 statuses']);
    assert.deepEqual(await callsAfter({ ...NO_OBJECTS }), ['0 statuses']);
  });

  it('evaluates each state with Guardrails once, and rests after the last Guardrail', async () => {
    const withSsh = toClusterObjects([SSH]);
    assert.deepEqual(await callsAfter(withSsh), ['violations', '1 statuses']);
    assert.deepEqual(await callsAfter(withSsh), []);
    assert.deepEqual(await callsAfter({ ...withSsh }), ['violations', '1 statuses']);
    assert.deepEqual(await callsAfter({ ...NO_OBJECTS }), ['0 statuses', 'rest']);
    assert.deepEqual(await callsAfter({ ...NO_OBJECTS }), ['0 statuses']);
  });

  it('keeps the process up to date for a while after a change, and then lets it rest', async () => {
    await callsAfter({ ...NO_OBJECTS });
    await watch.change(CHANGE, { source: 'a', user: 'ann' });
    assert.deepEqual(calls.splice(0), ['violations', 'change', '0 statuses']);
    clock.pass(1_000);
    assert.deepEqual(await callsAfter({ ...NO_OBJECTS }), ['violations', '0 statuses']);
    clock.pass(KEEP_READY);
    assert.deepEqual(calls.splice(0), ['rest']);
    assert.deepEqual(await callsAfter({ ...NO_OBJECTS }), ['0 statuses']);
    await watch.change(CHANGE, { source: 'a', user: 'ann' });
    assert.deepEqual(calls.splice(0), ['violations', 'change', '0 statuses']);
  });

  it('does not rest while there are Guardrails', async () => {
    const withSsh = toClusterObjects([SSH]);
    await callsAfter(withSsh);
    await watch.change(CHANGE, { source: 'a', user: 'ann' });
    clock.pass(KEEP_READY);
    await nextTurn();
    assert.equal(calls.includes('rest'), false);
  });
});
