import assert from 'node:assert/strict';
import type { NodeState } from '../../apis/compiled.ts';
import { DEFAULT_CONFIG, type FailsafeEntry } from '../../apis/config.ts';
import { closing, ingress, nodeState } from '../../test/fake/node-state.ts';
import type { Trial } from './guard-state.ts';
import type { Probe } from './probes.ts';
import { deadlineAfter, TrialDeadline } from './trial-deadline.ts';

const API_SERVER: FailsafeEntry = { protocol: 'tcp', ports: [6443, 6443], peers: ['192.0.2.1'] };
const probe = (name: string, port: number): Probe => ({
  ...{ kind: 'outward', name },
  attempts: [{ kind: 'tcp', address: '192.0.2.1', port }],
});
const PROBES = [probe('backup', 1), probe('mirror', 2)];
const CONFIRMED = nodeState(closing('a', 80));
const CHANGED = nodeState(closing('a', 81));
const WIDER = nodeState(closing('a', 80), ingress('b', { action: 'Allow' }));
const trialOf = (...counted: readonly string[]): Trial => ({ counted: new Set(counted) }) as unknown as Trial;

describe('the deadline of a state', () => {
  let touched: readonly string[];
  let deadline: TrialDeadline;
  beforeEach(() => {
    touched = [];
    deadline = new TrialDeadline({
      config: DEFAULT_CONFIG,
      probes: () => PROBES,
      controlPlane: () => [API_SERVER],
      touched: () => touched,
    });
  });
  const portsOf = ({ deadline: it }: NodeState) => it?.flows.map(({ dstPort }) => dstPort);

  it('is there once the state may be tried: before it is known whether it is, and which probes count', () => {
    const before = deadline.over(CHANGED, { confirmed: CONFIRMED, trial: null });
    assert.deepEqual([before.deadline?.milliseconds, before.deadline?.entries], [30_000, [API_SERVER]]);
    assert.deepEqual(portsOf(before), [1, 2]);
    const tried = deadline.over(CHANGED, { confirmed: CONFIRMED, trial: trialOf('mirror') });
    assert.deepEqual(portsOf(tried), [2]);
    assert.equal(deadline.over(CHANGED, { confirmed: CONFIRMED, trial: trialOf('mirror') }), tried);
  });

  it('is not there for confirmed rules, nor for those that can only allow more, unless they are tried', () => {
    const over = (state: NodeState, confirmed: NodeState | null, trial: Trial | null = null) =>
      deadline.over(state, { confirmed, trial });
    assert.equal(over(CONFIRMED, CONFIRMED), CONFIRMED);
    assert.equal(over(CONFIRMED, CONFIRMED, trialOf('backup')), CONFIRMED, 'as after a rollback');
    assert.equal(over(WIDER, CONFIRMED), WIDER);
    assert.deepEqual(portsOf(over(WIDER, CONFIRMED, trialOf('backup'))), [1]);
    assert.equal(over(nodeState(), null).deadline, undefined);
    assert.notEqual(over(CONFIRMED, null).deadline, undefined);
    touched = ['a set with a probe’s address'];
    assert.notEqual(over({ ...CONFIRMED }, CONFIRMED).deadline, undefined);
  });

  it('is twice failAfter, and so that a node is back within a minute', () => {
    assert.deepEqual(
      [1, 15, 20.2, 600].map((failAfter) => deadlineAfter({ failAfter })),
      [20_000, 30_000, 41_000, 45_000],
    );
  });
});
