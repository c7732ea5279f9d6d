import assert from 'node:assert/strict';
import type { Guardrail } from '../../apis/objects.ts';
import type { Condition } from '../../apis/policy-status.ts';
import type { Violation } from '../../apis/validate/guardrail.ts';
import { GUARDRAIL_TARGET, GuardrailKeeper } from './guardrail-keeper.ts';

const GUARDRAIL: Guardrail = {
  kind: 'Guardrail',
  apiGroup: 'nodewall.io',
  name: 'g',
  uid: 'u',
  generation: 3,
  spec: { nodeSelector: {} },
};
const VIOLATION: Violation = { node: 'n1', item: 'mustDeny[0]', flow: { direction: 'ingress' }, rule: null };

describe('statuses of Guardrails', () => {
  let written: string[];
  /** The readiness last written. */
  let conditions: readonly Condition[];
  let present: object[];
  let keeper: GuardrailKeeper;

  beforeEach(() => {
    written = [];
    present = [];
    keeper = new GuardrailKeeper({
      clock: { date: () => new Date('2026-03-01T10:00:00Z') },
      request: async <T>() => ({ items: present }) as T,
      writer: {
        submit(name, uid, status) {
          written.push(`${name} ${uid} ${status.phase}`);
          conditions = status.conditions;
        },
        forget: (name) => void written.push(`forget ${name}`),
        has: () => false,
        clear: async () => void written.push('clear'),
        waiting: () => 0,
      },
      events: { broken: ({ name }, why) => void written.push(`event ${name} ${why}`) },
    });
  });

  it('are written by the leader, once for each change', async () => {
    keeper.set([GUARDRAIL], new Map());
    assert.deepEqual(written, []);
    await keeper.lead(true);
    keeper.set([GUARDRAIL], new Map());
    assert.deepEqual(written.splice(0), ['g u Holds']);
    keeper.set([GUARDRAIL], new Map([['g', [VIOLATION]]]));
    assert.deepEqual(written.splice(0), [
      'g u Broken',
      'event g on n1: {"direction":"ingress"} is decided by no rule',
    ]);
    assert.deepEqual(keeper.counts(), { all: 1, broken: 1 });
    keeper.set([GUARDRAIL], new Map([['g', [{ ...VIOLATION, node: 'n2' }]]]));
    assert.deepEqual(written.splice(0), ['g u Broken']);
    keeper.set([], new Map());
    assert.deepEqual(written.splice(0), ['forget g']);
    await keeper.lead(false);
    assert.deepEqual(written, ['clear']);
  });

  it('say what a Guardrail waits for that is not evaluated, until it is', async () => {
    await keeper.lead(true);
    const problem = { severity: 'error', file: '', line: 0, kind: 'Guardrail', name: 'g' } as const;
    const path = 'spec.mustAllow[0].from[0].group';
    keeper.wait([GUARDRAIL], [{ ...problem, path, message: 'there is no ClusterGroup "office"' }]);
    assert.deepEqual(written.splice(0), ['g u Pending']);
    assert.deepEqual(keeper.statuses()[0]?.status.problems, [`${path}: there is no ClusterGroup "office"`]);
    keeper.wait([], []);
    keeper.set([GUARDRAIL], new Map());
    assert.equal(written.at(-1), 'g u Holds');
  });

  it('say whether it holds as tools understand it, since when, across leaders', async () => {
    const shown = () => conditions.map(({ type, status, lastTransitionTime: time }) => [type, status, time]);
    const ready = { type: 'Ready', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z' };
    present = [{ metadata: { uid: 'u' }, status: { conditions: [ready] } }];
    keeper.set([GUARDRAIL], new Map());
    await keeper.lead(true);
    assert.deepEqual(shown(), [['Ready', 'True', '2026-01-01T00:00:00Z']]);
    keeper.set([GUARDRAIL], new Map([['g', [VIOLATION]]]));
    assert.deepEqual(shown(), [
      ['Ready', 'False', '2026-03-01T10:00:00Z'],
      ['Stalled', 'True', '2026-03-01T10:00:00Z'],
    ]);
    keeper.wait([GUARDRAIL], []);
    keeper.set([], new Map());
    assert.deepEqual(
      conditions.map(({ type, reason }) => [type, reason]),
      [
        ['Ready', 'Pending'],
        ['Reconciling', 'Pending'],
      ],
    );
  });

  it('leave out the rule where none decides', () => {
    const status = {
      phase: 'Broken',
      observedGeneration: 3,
      violations: [VIOLATION],
      conditions: [],
    } as const;
    const { rule: _, ...violation } = VIOLATION;
    assert.deepEqual(GUARDRAIL_TARGET.toPatch(status), {
      ...status,
      problems: null,
      violations: [violation],
    });
  });
});
